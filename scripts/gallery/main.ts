import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import pg from "pg";
import { chromium } from "playwright";
import { findChromium } from "../../e2e/chromium.ts";
import { loadRuns } from "../load/load-runs.ts";
import { createLoadTenant } from "../load/load-tenant.ts";
import { readStackFile, type Stack } from "../test/stack.ts";
import { startStack } from "../test/start-stack.ts";
import { renderGallery } from "./contents.ts";
import { type Shot, shoot } from "./shoot.ts";
import { type State, states, type World } from "./states.ts";
import { openVisitors } from "./visitors.ts";

/**
 * `npm run gallery`: pictures of every page and state at three widths, light and dark, in `.local/gallery/index.html`,
 * on the stack that GATEHOUSE_STACK names or one of its own;
 * `npm run gallery -- studio` takes those alone whose names have the word. Exit code 1 where a page is too wide, logs an error, or has
 * a violation that axe finds.
 */
const [word = ""] = process.argv.slice(2);
const directory = path.resolve(".local/gallery");
const own = process.env.GATEHOUSE_STACK ? undefined : await startStack();
try {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  const shots = await takeAll(readStackFile(own?.file ?? process.env.GATEHOUSE_STACK ?? ""));
  await writeFile(path.join(directory, "index.html"), renderGallery(shots));
  const faulty = shots.filter(({ faults }) => faults.length > 0);
  for (const { state, width, scheme, faults } of faulty)
    console.log(`${state}, ${width} px, ${scheme}: ${faults.join("; ")}`);
  console.log(`${shots.length} pictures in ${directory}, ${faulty.length} with something to mend`);
  if (faulty.length > 0) process.exitCode = 1;
} finally {
  await own?.stop();
}

/** Two visitors' states at a time. */
async function takeAll(stack: Stack): Promise<Shot[]> {
  const world = await seed(stack);
  const browser = await chromium.launch(await findChromium());
  try {
    const visitors = await openVisitors(browser, stack);
    const left = states.filter(({ name }) => name.includes(word));
    const shots: Shot[] = [];
    const work = async () => {
      for (let state = left.shift(); state; state = left.shift()) shots.push(...(await take(state)));
    };
    const take = async (state: State): Promise<Shot[]> => {
      const page = await visitors[state.visitor].newPage();
      try {
        return await shoot(page, { state, world, directory });
      } catch (error) {
        const said = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
        return [{ state: state.name, visitor: state.visitor, width: 0, scheme: "none", file: "", faults: [said] }];
      } finally {
        await page.close();
      }
    };
    await Promise.all([work(), work()]);
    return shots.sort((a, b) => a.state.localeCompare(b.state) || a.width - b.width);
  } finally {
    await browser.close();
  }
}

/** A workspace with two thousand runs of sixty days, and one with none. */
async function seed({ supabase, satellites, workspaceId }: Stack): Promise<World> {
  const client = new pg.Client({ connectionString: supabase.dbUrl });
  await client.connect();
  try {
    const tenant = await createLoadTenant(client);
    await loadRuns(client, { tenant, runs: 2_000, days: 60 });
    const { rows } = await client.query<{ id: string }>("select id from ai.runs where workspace_id = $1 limit 1", [
      tenant.workspaceId,
    ]);
    const { workspaceId: busy, appId, ownerId: userId } = tenant;
    return { busy, empty: workspaceId, appId, userId, runId: rows[0]?.id ?? "", satellite: satellites[0]?.url ?? "" };
  } finally {
    await client.end();
  }
}
