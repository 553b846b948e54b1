// What bench/ui/live asks a browser: ADDRESS PID_OF_SERVER SECONDS. A line for each sample; the last lines say what grew.
import { memory, open } from "./browser.mjs";

const [address, server, seconds] = process.argv.slice(2);
const { browser, page, meta, pageMemory } = await open(address, 120_000);

await page.goto(address);
await page.locator(".live").waitFor();
const samples = [];
const begin = Date.now();
console.log("      s    records   server MB  page MB  behind s");
const samplesWanted = 20;
for (let n = 1; n <= samplesWanted; n++) {
	await new Promise((done) => setTimeout(done, (seconds * 1000) / samplesWanted));
	const now = await meta();
	const behind = Number(BigInt(Date.now()) * 1000000n - BigInt(now.base) - BigInt(now.to)) / 1e9;
	const sample = { at: (Date.now() - begin) / 1000, records: now.records, server: memory(server, "status", "RssAnon"), page: await pageMemory(), behind };
	samples.push(sample);
	console.log(
		`${sample.at.toFixed(0).padStart(7)} ${String(sample.records).padStart(10)} ${sample.server.toFixed(0).padStart(11)} ${sample.page.toFixed(0).padStart(8)} ${sample.behind.toFixed(1).padStart(9)}`,
	);
}
await browser.close();
const most = (name, part) => Math.max(...part.map((it) => it[name]));
const half = samples.length / 2;
for (const name of ["server", "page"]) {
	const [first, second] = [most(name, samples.slice(0, half)), most(name, samples.slice(half))];
	console.log(`${name}: at most ${first.toFixed(0)} MB in the first half, ${second.toFixed(0)} MB in the second`);
}
console.log(`behind: ${samples.map((it) => it.behind).sort((a, b) => a - b)[Math.floor(half)].toFixed(1)} s in the middle`);
