import { randomUUID } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import type pg from "pg";
import { z } from "zod";
import { markdownTable } from "../report/tables.ts";
import { type GrowthTenant, growthTenant } from "./data.ts";
import { operations } from "./operations.ts";

/** After five executions, PL/pgSQL may switch to one plan for all arguments. */
const executionsBefore = 6;

type Statement = { what: string; sql: string; values: () => unknown[] };

type PlanNode = {
  "Node Type": string;
  "Relation Name"?: string | undefined;
  "Index Name"?: string | undefined;
  "Actual Rows"?: number | undefined;
  "Actual Loops"?: number | undefined;
  "Rows Removed by Filter"?: number | undefined;
  Plans?: PlanNode[] | undefined;
};
const planNode: z.ZodType<PlanNode> = z.object({
  "Node Type": z.string(),
  "Relation Name": z.string().optional(),
  "Index Name": z.string().optional(),
  "Actual Rows": z.number().optional(),
  "Actual Loops": z.number().optional(),
  "Rows Removed by Filter": z.number().optional(),
  get Plans() {
    return z.array(planNode).optional();
  },
});
const explained = z.object({ "Query Text": z.string(), Plan: planNode });

/** The duration of a statement's sixth execution on a connection, and the plans of its seventh. */
type StatementPlans = { what: string; ms: number; plans: z.infer<typeof explained>[] };

/**
 * Returns a table of what the ten most frequent statements read, and writes their plans to a file.
 * @param superuser a connection that may load auto_explain, which shows the plans of statements in functions
 */
export async function explainFrequentStatements(superuser: pg.Client): Promise<string> {
  await superuser.query("load 'auto_explain'");
  await superuser.query(
    `select set_config(name, value, false) from (values
       ('auto_explain.log_nested_statements', 'on'), ('auto_explain.log_analyze', 'on'), ('auto_explain.log_timing', 'off'),
       ('auto_explain.log_format', 'json'), ('client_min_messages', 'log')
     ) as settings (name, value)`,
  );
  const found: StatementPlans[] = [];
  for (const statement of frequentStatements(await growthTenant(superuser), await readKeyHash(superuser))) {
    found.push(await explain(superuser, statement));
  }
  const file = path.join("bench-results", "plans.json");
  await mkdir("bench-results", { recursive: true });
  await writeFile(file, `${JSON.stringify(found, null, 1)}\n`);
  return `${planTable(found)}\n\nThe plans themselves: ${file}`;
}

/** Executes a statement in transactions that are rolled back. */
async function explain(client: pg.Client, { what, sql, values }: Statement): Promise<StatementPlans> {
  const plans: StatementPlans["plans"] = [];
  const listen = ({ message = "" }: { message?: string | undefined }) => {
    const begin = message.indexOf("{");
    if (begin >= 0) plans.push(explained.parse(JSON.parse(message.slice(begin))));
  };
  let ms = Number.NaN;
  for (let execution = 0; execution < executionsBefore; execution += 1) ms = await rolledBack(client, { sql, values });
  await client.query("set auto_explain.log_min_duration = 0");
  client.on("notice", listen);
  await rolledBack(client, { sql, values });
  client.off("notice", listen);
  await client.query("set auto_explain.log_min_duration = -1");
  return { what, ms, plans };
}

async function rolledBack(client: pg.Client, { sql, values }: Pick<Statement, "sql" | "values">): Promise<number> {
  await client.query("begin");
  const given = values();
  const before = performance.now();
  await client.query(sql, given);
  const ms = performance.now() - before;
  await client.query("rollback");
  return ms;
}

async function readKeyHash(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ hash: string }>(
    `select encode(s.secret_hash, 'hex') as hash from ai.keys s join public.workspaces w on w.id = s.workspace_id
     where w.name = 'Load' and s.name = 'Load'`,
  );
  if (!rows[0]) throw new Error("The growth bench has no data yet.");
  return rows[0].hash;
}

function frequentStatements(tenant: GrowthTenant, keyHash: string): Statement[] {
  const credential = { source: "key", hash: keyHash };
  const call = () => ({
    credential,
    workspace: tenant.workspaceId,
    request_id: randomUUID(),
    feature: "chat",
    kind: "chat",
    model: "demo-chat",
    providers: ["demo"],
    input_bytes: 300,
    output_limit: 100,
  });
  const read = new Map(operations(tenant).map((operation) => [operation.what, operation]));
  const operation = (what: string): Statement => {
    const { sql, values } = read.get(what) ?? { sql: "", values: [] };
    return { what, sql, values: () => values };
  };
  return [
    {
      what: "begin and settle a call",
      sql: `with begun as materialized (select ai.begin_runs($1)::jsonb -> 0 as run)
            select ai.settle_runs(jsonb_build_array(jsonb_build_object(
              'created_at', run -> 'created_at', 'id', run -> 'run_id', 'status', 'cancelled', 'http_status', 499,
              'usage_source', 'unavailable', 'latency_ms', 5
            ))) from begun`,
      values: () => [JSON.stringify([call()])],
    },
    {
      what: "models of a key",
      sql: "select ai.list_models($1)",
      values: () => [JSON.stringify({ credential, workspace: tenant.workspaceId, providers: ["demo"] })],
    },
    { what: "workspaces of a person", sql: "select count(*) from public.list_workspaces()", values: () => [] },
    operation("runs: newest"),
    operation("runs: a day ago"),
    operation("runs: by model"),
    operation("overview by day"),
    operation("credits: a page"),
    operation("keys: a page"),
    operation("console: account by email"),
  ];
}

function planTable(found: readonly StatementPlans[]): string {
  const lines = found.map(({ what, ms, plans }) => {
    const nodes = plans.flatMap(({ Plan }) => nodesOf(Plan));
    const scans = nodes.filter((node) => node["Relation Name"] ?? node["Index Name"]);
    const rows = scans.reduce((sum, node) => sum + rowsOf(node), 0);
    const whole = scans.filter((node) => node["Node Type"] === "Seq Scan" && rowsOf(node) > 0);
    const names = [...new Set(scans.map((node) => node["Index Name"]).filter((name) => name !== undefined))];
    const largest = whole.toSorted((a, b) => rowsOf(b) - rowsOf(a))[0];
    return [
      what,
      ms.toFixed(1),
      String(plans.length),
      String(Math.round(rows)),
      largest ? `${largest["Relation Name"]} (${Math.round(rowsOf(largest))})` : "none",
      String(names.length),
    ];
  });
  const head = [
    "statement, seventh execution",
    "ms, sixth execution",
    "plans",
    "rows read",
    "largest table read whole (rows)",
    "indexes",
  ];
  return markdownTable(head, lines);
}

function nodesOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

function rowsOf(node: PlanNode): number {
  return ((node["Actual Rows"] ?? 0) + (node["Rows Removed by Filter"] ?? 0)) * (node["Actual Loops"] ?? 0);
}
