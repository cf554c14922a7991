import { existsSync } from "node:fs";
import { cp, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { chromium } from "playwright";
import { findChromium } from "../../e2e/chromium.ts";
import { readArguments } from "../help.ts";
import { startStack } from "../test/start-stack.ts";
import { renderGallery } from "./contents.ts";
import { type Shot, shoot } from "./shoot.ts";
import { states } from "./states.ts";
import { createVisitors } from "./visitors.ts";

const usage = `npm run gallery -- [word] [--before <folder>] [--check]

Takes pictures of every page and state at three widths, light and dark, and writes them to .local/gallery/. Uses the
stack that GATEHOUSE_STACK names, or its own. With a word, takes only the states whose area, name or route contains it.
--before shows the pictures in a copy of an earlier gallery next to the new ones. --check takes only the pictures of
views with faults. Exits with 1 if a state is not reached, or if a page is too wide, logs an error or has a violation
found by axe.`;
const begun = Date.now();
const { values: options, positionals } = readArguments(usage, {
  allowPositionals: true,
  options: { before: { type: "string" }, check: { type: "boolean", default: false } },
});
const word = positionals.join(" ").toLowerCase();
const wanted = states.filter(({ area, name, route }) => `${area} ${name} ${route}`.toLowerCase().includes(word));
const directory = path.resolve(".local/gallery");
const pagesAtOnce = 2;

const own = process.env.GATEHOUSE_STACK ? undefined : await startStack();
if (own) process.env.GATEHOUSE_STACK = own.file;
// Imported after `GATEHOUSE_STACK` is set, because modules that world.ts imports read the stack's description when they
// load.
const { createWorld } = await import("./world.ts");
const world = await createWorld();
try {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  if (options.before) await cp(options.before, path.join(directory, "before"), { recursive: true });
  const shots = await takeAll();
  await writeFile(
    path.join(directory, "index.html"),
    renderGallery(shots, { before: await namesOf(path.join(directory, "before")) }),
  );
  const faulty = shots.filter(({ faults }) => faults.length > 0);
  for (const { state, width, scheme, faults } of faulty)
    console.log(`${state.area}: ${state.name}, ${width} px, ${scheme}: ${faults.join("; ")}`);
  const seconds = Math.round((Date.now() - begun) / 1000);
  console.log(
    `${wanted.length} states, ${shots.length} ${options.check ? "views" : "pictures"} in ${seconds} s, ${faulty.length} with faults.`,
  );
  console.log(path.join(directory, "index.html"));
  if (faulty.length > 0 || wanted.length === 0) process.exitCode = 1;
} finally {
  await world.close();
  await own?.stop();
}

async function namesOf(folder: string): Promise<Set<string>> {
  return new Set(existsSync(folder) ? await readdir(folder) : []);
}

async function takeAll(): Promise<Shot[]> {
  const browser = await chromium.launch(await findChromium());
  try {
    const visit = createVisitors(browser, world);
    const taken: Shot[][] = [];
    const left = wanted.map((state, index) => ({ state, index }));
    const work = async () => {
      for (let next = left.shift(); next; next = left.shift()) {
        const { context, person, leave } = await visit(next.state.visitor);
        const page = await context.newPage();
        taken[next.index] = await shoot(
          { page, world, person },
          { state: next.state, directory, isCheck: options.check },
        );
        await page.close();
        await leave();
        console.log(`${wanted.length - left.length}/${wanted.length} ${next.state.area}: ${next.state.name}`);
      }
    };
    await Promise.all(Array.from({ length: pagesAtOnce }, work));
    return taken.flat();
  } finally {
    await browser.close();
  }
}
