import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { applyMigrations } from "../database/migrations.ts";
import { judgeProbes, verdict } from "../soak/audit/verdict.ts";
import { renderVerdicts } from "../soak/report.ts";
import { type SoakStack, startSoakStack } from "../soak/stack.ts";
import { checkOutPrevious, type PreviousRelease } from "./previous-release.ts";

const restartLimitMs = 30_000;
const restarted = ["web", "functions"];

let previous: PreviousRelease | { unavailable: string };
let stack: SoakStack | undefined;

beforeAll(async () => {
  previous = await checkOutPrevious({ commit: process.env.GATEHOUSE_RELEASE_COMMIT });
  if ("unavailable" in previous) return;
  stack = await startSoakStack({ root: previous.root });
  process.env.GATEHOUSE_STACK = stack.file;
});
afterAll(async () => {
  await stack?.stop();
  await stack?.remove();
  if (!("unavailable" in previous)) await previous.remove();
});

test("the previous release works on the upgraded database, or the test says why it was skipped", async () => {
  if ("unavailable" in previous || !stack) {
    console.log(`Rollback is skipped: ${"unavailable" in previous ? previous.unavailable : "no stack"}.`);
    return;
  }
  // Imported late, since these modules read GATEHOUSE_STACK when they are loaded.
  const { createWorld } = await import("../soak/world.ts");
  const { readBooks, readReports, readRuns, waitUntilSettled, query } = await import("../soak/audit/collect.ts");
  const { judgeBooks, judgeReports } = await import("../soak/audit/charges.ts");
  const { probeAll } = await import("../soak/audit/collect-probes.ts");
  const { createPerson, signIn } = await import("../test/people.ts");

  const world = await createWorld({ browsers: 0, people: 0, visitors: 0, phones: 0 });
  const [ada, bob] = [await createPerson(), await createPerson()];
  const browser = await signIn(ada);
  const applied = await applyMigrations({ dbUrl: world.stack.supabase.dbUrl, directory: previous.upgraded });
  expect(applied).toEqual(previous.added);
  await restart(stack);

  expect((await browser.session()).user.id).toBe(ada.id);
  const { location } = await browser.post("/login", { email: bob.email, password: bob.password, returnUrl: "" });
  expect(location).not.toBeNull();
  expect((await browser.session()).user.id).toBe(bob.id);
  const switched = await browser.postJson("/api/v1/auth/accounts/switch", { accountId: ada.id });
  expect(switched.status).toBe(200);
  expect((await browser.session()).user.id).toBe(ada.id);

  const probes = await probeAll(world);
  expect(await waitUntilSettled(world, { limitMs: 20_000 })).toBe(0);
  const runs = await readRuns(world);
  const unpaid = runs.filter(
    ({ usageSource, exempt, entries }) => usageSource !== "provider" || (!exempt && entries !== 1),
  );
  const verdicts = [
    judgeProbes(probes),
    ...judgeBooks(await readBooks(world)),
    judgeReports(await readReports(world)),
    verdict("chats and streams settle", { figures: `${runs.length} runs`, failures: unpaid.map(({ id }) => id) }),
  ];
  const [schema] = await query<{ newest: string }>(world, {
    sql: "select max(version) as newest from supabase_migrations.schema_migrations",
    values: [],
  });
  console.log(
    `The code of ${previous.version} on a database of migration ${schema?.newest}: sign-in, switch, ${probes.length} probes.\n${renderVerdicts(verdicts)}`,
  );
  expect(verdicts.flatMap(({ failures }) => failures)).toEqual([]);
  expect(runs.length).toBeGreaterThanOrEqual(4);
});

/**
 * Restarts the web server and the functions, as a rollback does. The runner starts each service again after its process
 * ends.
 */
async function restart(stack: SoakStack): Promise<void> {
  const before = new Map(stack.read().services.map(({ name, pid }) => [name, pid]));
  for (const name of restarted) process.kill(before.get(name) ?? 0, "SIGKILL");
  const deadline = Date.now() + restartLimitMs;
  for (;;) {
    const now = stack.read();
    const isNew = restarted.every((name) => {
      const pid = now.services.find((service) => service.name === name)?.pid ?? 0;
      return pid !== 0 && pid !== before.get(name);
    });
    const answers =
      isNew && (await Promise.all([`${now.base}/healthz`, `${now.ai}/v1/models`].map(isThere))).every(Boolean);
    if (answers) return;
    if (Date.now() > deadline) throw new Error(`${restarted.join(" and ")} did not come back`);
    await sleep(100);
  }
}

/** Returns whether a server answers with a status below 500. */
async function isThere(url: string): Promise<boolean> {
  return fetch(url).then(
    ({ status }) => status < 500,
    () => false,
  );
}
