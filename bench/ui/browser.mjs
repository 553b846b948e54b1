// A browser that shows the page of `strata ui`, for measurements: live.mjs and measure.mjs.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { chromium } = createRequire(new URL("../../ui/package.json", import.meta.url))("playwright-core");

/** Opens a browser with an empty page, which waits up to `timeout` ms for what it is asked. */
export async function open(address, timeout) {
	const executablePath = execFileSync("sh", ["-c", "command -v chromium"], { encoding: "utf8" }).trim();
	const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
	const page = await browser.newPage({ viewport: { width: 1600, height: 900 } });
	page.setDefaultTimeout(timeout);
	const url = new URL(address);
	const authorization = `Bearer ${url.searchParams.get("token")}`;
	const cdp = await browser.newBrowserCDPSession();
	return {
		browser,
		page,
		/** What the server says of the trace. */
		meta: async () => (await fetch(`${url.origin}/v1/meta`, { headers: { authorization } })).json(),
		/** Memory of the largest page's process that is its own [MB]. */
		pageMemory: async () => {
			const { processInfo } = await cdp.send("SystemInfo.getProcessInfo");
			const renderers = processInfo.filter(({ type }) => type === "renderer");
			return Math.max(...renderers.map(({ id }) => memory(id, "smaps_rollup", "Private_Dirty")));
		},
	};
}

/** A line of a process' memory in `status` or `smaps_rollup` [MB]; 0 if there is none. */
export function memory(pid, file, name) {
	return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(readFileSync(`/proc/${pid}/${file}`, "utf8"))?.[1] ?? 0) / 1000;
}
