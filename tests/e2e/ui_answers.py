"""Prints what a server of strata ui answers about a trace that is read, but for what differs each time: ADDRESS."""

import json
import sys
import urllib.error
import urllib.parse
import urllib.request

at = urllib.parse.urlparse(sys.argv[1])
token = urllib.parse.parse_qs(at.query)["token"][0]


def get(path):
    request = urllib.request.Request(f"http://{at.netloc}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        return urllib.request.urlopen(request, timeout=120).read()
    except urllib.error.HTTPError as refused:
        # Between two slices there is none.
        if refused.code == 404:
            return b"none"
        sys.exit(f"{path}: {refused.code} {refused.read().decode()[:300]}")


meta = json.loads(get("/v1/meta"))
for name in ("kept", "reading_ms"):
    del meta[name]
print(json.dumps(meta, sort_keys=True))
here = f"/v1/{meta['id']}"
tracks = json.loads(get(f"{here}/tracks"))["tracks"]
print(json.dumps(tracks))
for path in ("names?from=0", "overview"):
    print(path, get(f"{here}/{path}").decode())
begin, end = meta["from"], meta["to"]
for part in ((begin, end), (begin + (end - begin) // 3, end - (end - begin) // 5)):
    for what in ("sums", "slices"):
        print(what, get(f"{here}/{what}?from={part[0]}&to={part[1]}").decode())
for level in (10, 16, 21, 26, 34):
    width = 512 << level
    indexes = range(begin // width, end // width + 1)
    for index in list(indexes)[:: max(len(indexes) // 4, 1)]:
        for first in range(0, len(tracks), 64):
            numbers = ",".join(str(track["id"]) for track in tracks[first : first + 64])
            print(level, index, get(f"{here}/tiles/{level}/{index}?tracks={numbers}").hex())
for track in tracks[:: max(len(tracks) // 100, 1)]:
    time = (track["from"] + track["to"]) // 2
    if track["count"]:
        print(track["id"], get(f"{here}/slice/{track['id']}/{time}").decode())
    if track["kind"] == "thread":
        print(track["id"], get(f"{here}/path/{track['id']}?from={track['from']}&to={track['to']}").decode())
