import { readFileSync } from "node:fs";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { z } from "zod";
import type { Env } from "../../../remix-app/config/env.server.ts";
import { readSections } from "../../docs/settings.ts";
import type { Configuration } from "./configuration.ts";
import { type Finding, fail, ok, unseen, warn } from "./finding.ts";

const askLimitMs = 10_000;
const health = z.object({ status: z.literal("ok"), forwarded: z.int() });

/** Compares TRUSTED_PROXY_HOPS with the number of proxies that our own request passes through. */
export async function checkProxyHops({ BASE_URL, TRUSTED_PROXY_HOPS: hops }: Env): Promise<Finding[]> {
  const answer = await fetch(`${BASE_URL}/healthz`, { signal: AbortSignal.timeout(askLimitMs) }).catch(() => null);
  const read = health.safeParse(await answer?.json().catch(() => undefined));
  if (!read.success) return [unseen("proxies", `not counted: ${BASE_URL}/healthz is not answered by this release yet`)];
  const { forwarded } = read.data;
  if (hops === forwarded) return [ok("proxies", `${hops} in front of the web server, as TRUSTED_PROXY_HOPS says`)];
  const says = `TRUSTED_PROXY_HOPS is ${hops}, and a request of ours came through ${forwarded}`;
  return [
    hops > forwarded
      ? fail("proxies", `${says}: callers choose their own address, and no limit holds. Set it to ${forwarded}.`)
      : warn(
          "proxies",
          `${says}: visitors share the address of a proxy, and its limits. Set it to ${forwarded}, unless a proxy on your side added an entry.`,
        ),
  ];
}

/** Warns if functions reach the database through a session-mode pooler: port 5432 on hosted Supabase. */
export function checkPooler({ GATEWAY_DB_URL: address = "" }: Configuration["settings"]): Finding[] {
  if (!URL.canParse(address)) return [];
  const { hostname, port } = new URL(address);
  if (!/(^|[.-])pooler([.-]|$)/.test(hostname) || (port !== "" && port !== "5432")) return [];
  const says =
    "GATEWAY_DB_URL reaches the pooler in session mode (port 5432): each connection of an isolate holds one of Postgres, " +
    "until none is left. Use transaction mode, port 6543 (Dashboard, Connect).";
  return [warn("functions", says)];
}

const jobs = z.object({ installed: z.boolean(), jobs: z.int(), schedulers: z.int() });
type Jobs = z.output<typeof jobs>;
const countJobs = (condition: string) => `
  case when to_regclass('cron.job') is null then 0
    else (xpath('/row/n/text()', query_to_xml($$select count(*) as n from cron.job where ${condition}$$, false, true, '')))[1]::text::int
  end`;
const cronQuery = `
  select to_regclass('cron.job') is not null as installed, ${countJobs("active")} as jobs,
    ${countJobs("active and command like '%/api/v1/schedule%'")} as schedulers`;

/**
 * Checks that the database runs its own maintenance jobs, and the web server's tasks if SCHEDULE_LOOP is off.
 * @param dbUrl undefined if the database cannot be queried directly
 */
export async function checkCron(dbUrl: string | undefined, env: Pick<Env, "SCHEDULE_LOOP">): Promise<Finding[]> {
  if (!dbUrl) return [unseen("pg_cron", "not shown without SUPABASE_DB_URL: look at Dashboard, Integrations, Cron")];
  const config = { connectionString: dbUrl, connectionTimeoutMillis: askLimitMs, query_timeout: askLimitMs };
  const { rows } = await withDatabase(config, (client) => client.query(cronQuery));
  const found = jobs.parse(rows[0]);
  return [judgeCron(found), ...judgeScheduler(found, env)];
}

/** Warns if nothing is seen that runs the web server's tasks, such as sending mails. */
export function judgeScheduler(
  { schedulers }: Pick<Jobs, "schedulers">,
  { SCHEDULE_LOOP }: Pick<Env, "SCHEDULE_LOOP">,
): Finding[] {
  if (SCHEDULE_LOOP) return [];
  if (schedulers > 0) return [ok("schedule", "a job of pg_cron calls the web server's schedule")];
  const says =
    "SCHEDULE_LOOP is off, and no job of pg_cron calls POST /api/v1/schedule: unless another scheduler does, no mails and logout notices are sent.";
  return [warn("schedule", says)];
}

/** Judges whether pg_cron is installed and has active jobs. */
export function judgeCron({ installed, jobs: active }: Pick<Jobs, "installed" | "jobs">): Finding {
  if (!installed) {
    const says =
      "pg_cron is not enabled: upkeep is done only while a web server runs. Enable it (Dashboard, Integrations, Cron) " +
      "before the migrations are applied, which make its jobs.";
    return warn("pg_cron", says);
  }
  if (active === 0) {
    return warn(
      "pg_cron",
      "it is enabled and has no active job: the migrations were applied before. The web servers do the upkeep.",
    );
  }
  return ok("pg_cron", `${active} active jobs`);
}

/**
 * Names shorter than this resemble too many others. A short typed name may differ from a known one by only one edit,
 * and a short known name is never suggested.
 */
const shortestName = 8;
const mostEdits = (name: string) => (name.length < shortestName ? 1 : 2);

/** Reports settings whose names are one or two letters away from one of ours and therefore have no effect. */
export function checkSettingNames(settings: Configuration["settings"]): Finding[] {
  const known = readSections(readFileSync("docs/settings.md", "utf8")).flatMap(({ mentions }) => mentions);
  const isKnown = (name: string) => known.some((one) => patternOf(one).test(name));
  return Object.keys(settings)
    .filter((name) => !isKnown(name))
    .flatMap((name) => {
      const meant = known.find((one) => one.length >= shortestName && distance(name, one) <= mostEdits(name));
      return meant ? [fail("settings", `${name} is not a setting and has no effect: did you mean ${meant}?`)] : [];
    });
}

const patternOf = (name: string) => new RegExp(`^${name.replaceAll(/<[A-Z]+>|\*/g, "[A-Z0-9_]+")}$`);

/** Returns the number of letters to add, remove or replace (Levenshtein distance). */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, n) => n);
  for (const [i, letter] of [...one].entries()) {
    const next = [i + 1];
    for (const [j, candidate] of [...other].entries()) {
      const replaced = (row[j] ?? 0) + (letter === candidate ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
