// What tools/pictures has a browser do: ADDRESS FOLDER.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";

const { chromium } = createRequire(new URL("../ui/package.json", import.meta.url))("playwright-core");
const [address, folder] = process.argv.slice(2);
const executablePath = execFileSync("sh", ["-c", "command -v chromium"], { encoding: "utf8" }).trim();
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
try {
	for (const colorScheme of ["light", "dark"]) {
		const page = await browser.newPage({ viewport: { width: 1280, height: 640 }, colorScheme });
		page.setDefaultTimeout(60_000);
		const ready = () => page.waitForFunction(() => document.documentElement.dataset.ready === "true");
		const step = async (act) => {
			await act();
			await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
			await ready();
		};
		await page.goto(address);
		await ready();
		// The program's own threads, and the time in which they run.
		await step(() => page.fill("input[type=search]", "words"));
		await page.locator("input[type=search]").blur();
		const toggle = page.locator('.toggle[aria-expanded="false"]').first();
		if ((await toggle.count()) > 0) {
			await step(() => toggle.click());
		}
		await step(() => page.mouse.move(900, 5));
		for (let n = 0; n < 3; n++) {
			await step(() => page.keyboard.press("w"));
		}
		// A wait that another thread ended.
		const rows = await page.locator(".name:not(.group)").count();
		let isFound = false;
		for (let row = 1; row < rows && !isFound; row++) {
			const box = await page.locator(".name:not(.group)").nth(row).boundingBox();
			for (let x = 700; x < 1270 && !isFound && box.y < 360; x += 6) {
				await step(() => page.mouse.click(x, box.y + 12));
				const panel = page.locator(".panel");
				isFound = (await panel.count()) > 0 && /^blocked in futex.*words/s.test(await panel.textContent());
			}
		}
		await step(() => page.mouse.move(900, 5));
		await page.screenshot({ path: `${folder}/ui-${colorScheme}.png` });
		if (isFound && colorScheme === "light") {
			await step(() => page.click("button:text-is('Why?')"));
			await page.screenshot({ path: `${folder}/why.png` });
		}
		await page.close();
	}
} finally {
	await browser.close();
}
