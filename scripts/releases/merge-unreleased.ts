import { cp, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Node, parse } from "libpg-query";
import { generateMigration, heading } from "../database/generate.ts";
import type { ScratchCluster } from "../database/scratch-cluster.ts";
import { readContents } from "../local-stack/contents/read-contents.ts";
import { withDatabase } from "../local-stack/database.ts";
import { StackError } from "../local-stack/errors.ts";
import { applyMigrations, listMigrations } from "../local-stack/migrations.ts";
import { splitStatements } from "../local-stack/statements.ts";

type Checkout = { migrations: string; schemas: string; released: ReadonlySet<string> };
type Part = "tables" | "backfills" | "validations";

/**
 * Merges the unreleased migrations into at most four files: tables, types and policies; changes of data; the functions,
 * views, triggers and grants, generated from `schemas/`; and validations of constraints. Statements keep their order
 * within a file.
 * @param options.prefix begins the names of the files after their time, such as `0_2_0`
 * @returns the names of the merged files; none if there is nothing to merge
 * @throws StackError if a file is not valid or the merged files build another database. The files then stay as they are.
 */
export async function mergeUnreleased(
  cluster: ScratchCluster,
  { migrations, schemas, released }: Checkout,
  { prefix, at }: { prefix: string; at: Date },
): Promise<string[]> {
  const unreleased = (await listMigrations(migrations)).filter(({ file }) => !released.has(path.basename(file)));
  if (unreleased.length === 0) return [];
  const texts = await Promise.all(unreleased.map(({ file }) => readFile(file, "utf8")));
  const byHand = await Promise.all(texts.filter((text) => !isGenerated(text)).map(sortStatements));
  const folder = await mkdtemp(path.join(tmpdir(), "gatehouse-merge-"));
  try {
    const filter = (source: string) => source === migrations || released.has(path.basename(source));
    await cp(migrations, folder, { recursive: true, filter });
    const name = (part: string, second: number) =>
      `${new Date(at.getTime() + second * 1_000).toISOString().replace(/\D/g, "").slice(0, 14)}_${prefix}_${part}.sql`;
    const write = async (part: Part, second: number) => {
      const content = byHand.map((sorted) => sorted[part]).filter((text) => text !== "");
      if (content.length > 0) await writeFile(path.join(folder, name(part, second)), `${content.join("\n\n")}\n`);
    };
    await write("tables", 0);
    await write("backfills", 1);
    await generateFunctions(cluster, { folder, schemas, file: name("functions", 2), texts });
    await write("validations", 3);
    const differences = await compareDatabases(cluster, migrations, folder);
    if (differences.length > 0) {
      throw new StackError(
        `The merged migrations build another database, so the files stay as they are. Merge them by hand, or correct:\n${differences.join("\n")}`,
      );
    }
    const merged = (await listMigrations(folder)).map(({ file }) => path.basename(file));
    await cp(folder, migrations, { recursive: true });
    for (const { file } of unreleased) if (!merged.includes(path.basename(file))) await rm(file);
    return merged.filter((file) => !released.has(file));
  } finally {
    await rm(folder, { recursive: true });
  }
}

function isGenerated(text: string): boolean {
  return text.startsWith(heading.split("\n")[0] ?? heading);
}

/** Sorts the statements of a file, which keep the settings that the file makes for itself. */
async function sortStatements(text: string): Promise<Record<Part, string>> {
  const parts: Record<Part, string[]> = { tables: [], backfills: [], validations: [] };
  const settings: string[] = [];
  for (const { text: statement } of await splitStatements(text)) {
    const [parsed] = ((await parse(statement)) as { stmts: { stmt: Node }[] }).stmts;
    if (!parsed) continue;
    if ("VariableSetStmt" in parsed.stmt) settings.push(`${statement};`);
    else parts[partOf(parsed.stmt)].push(`${statement};`);
  }
  const join = (statements: string[]) => (statements.length === 0 ? "" : [...settings, ...statements].join("\n"));
  return { tables: join(parts.tables), backfills: join(parts.backfills), validations: join(parts.validations) };
}

function partOf(node: Node): Part {
  if ("InsertStmt" in node || "UpdateStmt" in node || "DeleteStmt" in node || "DoStmt" in node) return "backfills";
  const commands = "AlterTableStmt" in node ? (node.AlterTableStmt.cmds ?? []) : [];
  const validates = (cmd: Node) => "AlterTableCmd" in cmd && cmd.AlterTableCmd.subtype === "AT_ValidateConstraint";
  return commands.length > 0 && commands.every(validates) ? "validations" : "tables";
}

/** Generates the file of functions, and keeps the reasons for which earlier files dropped functions. */
async function generateFunctions(
  cluster: ScratchCluster,
  { folder, schemas, file, texts }: { folder: string; schemas: string; file: string; texts: readonly string[] },
): Promise<void> {
  const layout = { dbUrl: await cluster.createDatabase(), migrations: folder, schemas };
  const written = await generateMigration(layout, "functions");
  if (!written) return;
  const reasons = new Map(
    texts.flatMap((text) =>
      [...text.matchAll(/^((?:--[^\n]*\n)+)(drop [^;]+;)/gm)].map(([, reason = "", drop = ""]) => [drop, reason]),
    ),
  );
  const sql = (await readFile(written.file, "utf8")).replace(
    /^drop [^;]+;/gm,
    (drop) => `${reasons.get(drop) ?? ""}${drop}`,
  );
  await writeFile(written.file, sql);
  await rename(written.file, path.join(folder, file));
}

/** Returns one line for each difference between the databases that two folders of migrations build. */
async function compareDatabases(cluster: ScratchCluster, ...folders: [string, string]): Promise<string[]> {
  const [before, after] = [await describe(cluster, folders[0]), await describe(cluster, folders[1])];
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((name) => before[name] !== after[name])
    .map((name) => `${name}: ${before[name] ?? "missing"}, after the merge ${after[name] ?? "missing"}`);
}

/** Describes objects, the order of columns, comments, indexes and the numbers of rows. */
async function describe(cluster: ScratchCluster, directory: string): Promise<Record<string, string>> {
  const dbUrl = await cluster.createDatabase();
  await applyMigrations({ dbUrl, directory });
  const { objects } = await readContents({ url: "", secretKey: "", dbUrl });
  return withDatabase(dbUrl, async (client) => {
    const { rows } = await client.query<{ name: string; value: string }>(`
      with relations as (
        select c.oid, c.relkind, c.relispartition, format('%I.%I', n.nspname, c.relname) as name
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname in ('public', 'private', 'ai') and c.relkind in ('r', 'p', 'v', 'c')
      )
      select 'columns of ' || r.name as name, string_agg(a.attname, ', ' order by a.attnum) as value
      from relations r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped group by r.name
      union all
      select concat_ws('.', 'comment on ' || r.name, a.attname), d.description
      from relations r join pg_description d on d.classoid = 'pg_class'::regclass and d.objoid = r.oid
        left join pg_attribute a on a.attrelid = r.oid and a.attnum = nullif(d.objsubid, 0)
      union all
      select pg_get_indexdef(i.indexrelid), i.indisvalid::text from relations r join pg_index i on i.indrelid = r.oid
      union all
      select 'rows of ' || r.name, (xpath('/row/n/text()', query_to_xml('select count(*) as n from ' || r.name, false, true, '')))[1]::text
      from relations r where r.relkind = 'r' and not r.relispartition
      union all
      select 'constraint ' || k.conname || ' on ' || r.name, k.convalidated::text from relations r join pg_constraint k on k.conrelid = r.oid`);
    return { ...objects, ...Object.fromEntries(rows.map(({ name, value }) => [name, value])) };
  });
}
