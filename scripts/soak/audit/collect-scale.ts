import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { upkeepFunctions } from "../../../remix-app/schedule/upkeep.ts";
import { openBrowser } from "../../../remix-app/testing/browser.ts";
import { newAddress } from "../../../remix-app/testing/visitor.ts";
import { createAiKey } from "../../../supabase/functions/_shared/ai-key.ts";
import { createPerson } from "../../test/people.ts";
import { serversOf, type World } from "../world.ts";
import { query } from "./collect.ts";
import type { LimitFact, SweeperFact } from "./scale.ts";

/** How many concurrent calls are sent for each call that the limit allows. */
const calls = 3;
const requestsPerMinute = 10;
/** Minimum number of seconds left in the current minute, so that all calls fall into one rate-limit window. */
const safeSeconds = 20;
const secondSweepLimit = "2s";

/** Sends concurrent wrong passwords for one account from one address, alternating between the web servers. */
export async function probePasswordLimit(world: World): Promise<LimitFact> {
  const rows = await query<{ attempts: number }>(world, {
    sql: "select attempts from private.attempt_limits() where action = 'password' and scope = 'pair'",
    values: [],
  });
  const limit = rows[0]?.attempts ?? 0;
  const servers = serversOf(world.stack, "web");
  const { email } = await createPerson();
  const address = newAddress();
  const statuses = await Promise.all(
    Array.from({ length: limit * calls }, async (_, n) => {
      const browser = openBrowser(servers[n % servers.length] ?? "", { address });
      return (await browser.post("/login", { email, password: "a wrong password", returnUrl: "" })).status;
    }),
  );
  return countOf({ what: "passwords of an account", limit, admittedAs: 400 }, statuses);
}

/** Sends concurrent calls with a rate-limited key, alternating between the gateway's processes. */
export async function probeRequestLimit(world: World): Promise<LimitFact> {
  const { text: key, lookup, hash } = await createAiKey();
  const { workspaceId, owner } = world.payer;
  const rows = await query<{ id: string }>(world, {
    sql: "select ai.create_key($1, $2, 'scale', $3, $4) as id",
    values: [workspaceId, owner.id, lookup, Buffer.from(hash)],
  });
  await query(world, {
    sql: "update ai.keys set requests_per_minute = $2 where id = $1",
    values: [rows[0]?.id, requestsPerMinute],
  });
  const secondsLeft = 60 - ((Date.now() / 1_000) % 60);
  if (secondsLeft < safeSeconds) await sleep((secondsLeft + 1) * 1_000);
  const servers = serversOf(world.stack, "functions");
  const statuses = await Promise.all(
    Array.from({ length: requestsPerMinute * calls }, async (_, n) => {
      const response = await fetch(`${servers[n % servers.length]}/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "demo-chat", messages: [{ role: "user", content: "Hello" }] }),
      });
      await response.text();
      return response.status;
    }),
  );
  return countOf({ what: "requests of a key", limit: requestsPerMinute, admittedAs: 200 }, statuses);
}

function countOf(
  { what, limit, admittedAs }: { what: string; limit: number; admittedAs: number },
  statuses: readonly number[],
): LimitFact {
  const admitted = statuses.filter((status) => status === admittedAs).length;
  const refused = statuses.filter((status) => status === 429).length;
  return { what, limit, admitted, refused, failed: statuses.length - admitted - refused };
}

/** Calls each sweep function while another sweep is running. The second call goes through the pooler. */
export async function probeSweepers(world: World): Promise<SweeperFact[]> {
  const first = new pg.Client({ connectionString: world.stack.supabase.dbUrl });
  const pooled = new URL(world.stack.supabase.dbUrl);
  pooled.port = String(world.stack.services.find(({ name }) => name === "pgbouncer")?.port);
  const second = new pg.Client({ connectionString: pooled.href });
  await Promise.all([first.connect(), second.connect()]);
  const facts: SweeperFact[] = [];
  try {
    for (const { schema, name } of Object.values(upkeepFunctions)) {
      const call = `select ${schema}.${name}()`;
      await first.query("begin");
      // Retries while a server runs the same sweep, because that server holds the lock.
      let isGuarded = false;
      for (let tries = 0; tries < 20 && !isGuarded; tries += 1) {
        await first.query(call);
        const { rowCount } = await first.query(
          "select from pg_locks where locktype = 'advisory' and granted and pid = pg_backend_pid()",
        );
        isGuarded = rowCount !== 0;
        if (!isGuarded) await sleep(250);
      }
      const secondError = await second
        .query(`begin; set local lock_timeout = '${secondSweepLimit}'; ${call}; commit`)
        .then(() => null)
        .catch(async (error: unknown) => {
          await second.query("rollback");
          return error instanceof Error ? error.message : String(error);
        });
      await first.query("rollback");
      facts.push({ name: `${schema}.${name}`, isGuarded, secondError });
    }
  } finally {
    await Promise.all([first.end(), second.end()]);
  }
  return facts;
}
