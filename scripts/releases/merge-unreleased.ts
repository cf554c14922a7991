import { cp, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { StackError } from "@gatehousehq/local-stack/errors";
import type { Node } from "libpg-query";
import { readContents } from "../database/contents/read-contents.ts";
import { generateMigration, heading, terminated } from "../database/generate.ts";
import { applyMigrations, listMigrations } from "../database/migrations.ts";
import type { ScratchCluster } from "../database/scratch-cluster.ts";
import { splitStatements } from "../database/statements.ts";
import { changesData, type Found, nameOf, readStatements } from "./zero-downtime.ts";

type Checkout = { migrations: string; schemas: string; released: ReadonlySet<string> };
/** Backfills come before the file of functions, or after it if a generated file came before them. */
type Part = "tables" | "backfills" | "later_backfills" | "validations";
type Source = { name: string; text: string; found: Found[] };

/** Begins a file that stays a file of its own, followed by the reason. */
const separate = /^-- Separate(?<late>, after the functions)?: /;

/**
 * Merges the unreleased migrations into one file of tables, types and policies; one of changes of data; one of functions,
 * views, triggers and grants, generated from `schemas/`; and one of validations. A file that begins with `-- Separate:`
 * and a reason stays a file of its own, and one that begins with `-- Separate, after the functions:` comes with the
 * validations. Statements keep their order within a file.
 * @param options.prefix begins the names of the files after their time, such as `0_2_0`
 * @returns the names of the new files and the versions of the removed ones; none if merging leaves as many files
 * @throws StackError if a statement would be lost or run in a wrong order, or if the merged files build another database.
 * The files then stay as they are.
 */
export async function mergeUnreleased(
  cluster: ScratchCluster,
  { migrations, schemas, released }: Checkout,
  { prefix, at }: { prefix: string; at: Date },
): Promise<{ written: string[]; removed: string[] }> {
  const unreleased = (await listMigrations(migrations)).filter(({ file }) => !released.has(path.basename(file)));
  const sources = await Promise.all(unreleased.map(({ file }) => readSource(file)));
  refuseUnsafeOrder(sources);
  const folder = await mkdtemp(path.join(tmpdir(), "gatehouse-merge-"));
  try {
    const filter = (source: string) => source === migrations || released.has(path.basename(source));
    await cp(migrations, folder, { recursive: true, filter });
    let second = 0;
    const nextName = (subject: string) => {
      const time = new Date(at.getTime() + second++ * 1_000).toISOString().replace(/\D/g, "").slice(0, 14);
      return `${time}_${prefix}_${subject}.sql`;
    };
    const write = async (part: Part) => {
      for (const { subject, text } of await gather(sources, part)) {
        await writeFile(path.join(folder, nextName(subject)), text);
      }
    };
    await write("tables");
    await write("backfills");
    await generateFunctions(cluster, { folder, schemas, sources, nextName });
    await write("later_backfills");
    await write("validations");
    const merged = (await listMigrations(folder)).filter(({ file }) => !released.has(path.basename(file)));
    if (merged.length >= unreleased.length) return { written: [], removed: [] };
    const differences = await compareDatabases(cluster, migrations, folder);
    if (differences.length > 0) refuse(`they would build another database:\n${differences.join("\n")}`);
    await cp(folder, migrations, { recursive: true });
    for (const { file } of unreleased) await rm(file);
    return {
      written: merged.map(({ file }) => path.basename(file)),
      removed: unreleased.map(({ version }) => version),
    };
  } finally {
    await rm(folder, { recursive: true });
  }
}

function refuse(reason: string): never {
  throw new StackError(`The unreleased migrations stay as they are. Merge them by hand, because ${reason}`);
}

async function readSource(file: string): Promise<Source> {
  const text = await readFile(file, "utf8");
  return { name: path.basename(file), text, found: await readStatements(text) };
}

const isGenerated = ({ text }: Source) => text.startsWith(heading.split("\n")[0] ?? heading);

/** The statements that the generator writes. It also restores policies, defaults and constraints. */
const generatedKinds = new Set(
  [
    "CreateFunctionStmt",
    "ViewStmt",
    "CreateTrigStmt",
    "DropStmt",
    "GrantStmt",
    "CommentStmt",
    "VariableSetStmt",
    "NotifyStmt",
  ].concat(["CreatePolicyStmt", "AlterTableStmt", "DoStmt"]),
);

/** @throws StackError for an order of statements that the merged files cannot keep */
function refuseUnsafeOrder(sources: readonly Source[]): void {
  const changed = new Set<string>();
  for (const source of sources) {
    for (const one of source.found) {
      const kind = Object.keys(one.node)[0] ?? "";
      if (isGenerated(source) && (!generatedKinds.has(kind) || changesData(one))) {
        refuse(`${source.name} is generated, and a statement in it was written by hand (${kind}).`);
      }
      if (isGenerated(source)) continue;
      const table = tableOf(one.node);
      if (definesOnly(one)) continue;
      if (changesData(one)) changed.add(table ?? "any table");
      else if (table && affectsWrites(one.node) && (changed.has(table) || changed.has("any table"))) {
        refuse(`${source.name} changes ${table} after its data was changed.`);
      }
    }
  }
}

/** Returns whether a statement calls a procedure of its own session, which defines functions. */
const definesOnly = ({ node, text }: Found) => "CallStmt" in node && /\bcall pg_temp\./.test(text);

/** Changes of a table that make no difference to an insert, update or delete that once came before them. */
const harmless = new Set(["AT_AddColumn", "AT_AddConstraint", "AT_DropConstraint", "AT_ValidateConstraint"]);

function affectsWrites(node: Node): boolean {
  const commands = "AlterTableStmt" in node ? (node.AlterTableStmt.cmds ?? []) : [];
  return (
    "CreateTrigStmt" in node ||
    commands.some((cmd) => "AlterTableCmd" in cmd && !harmless.has(cmd.AlterTableCmd.subtype ?? ""))
  );
}

/** Returns the existing table that a statement changes, or undefined for a new object. */
function tableOf(node: Node): string | undefined {
  if ("AlterTableStmt" in node) return nameOf(node.AlterTableStmt.relation);
  if ("CreateTrigStmt" in node) return nameOf(node.CreateTrigStmt.relation);
  if ("UpdateStmt" in node) return nameOf(node.UpdateStmt.relation);
  if ("InsertStmt" in node) return nameOf(node.InsertStmt.relation);
  return "DeleteStmt" in node ? nameOf(node.DeleteStmt.relation) : undefined;
}

function partOf(one: Found): "tables" | "backfills" | "validations" {
  if (changesData(one)) return "backfills";
  const commands = "AlterTableStmt" in one.node ? (one.node.AlterTableStmt.cmds ?? []) : [];
  const validates = (cmd: Node) => "AlterTableCmd" in cmd && cmd.AlterTableCmd.subtype === "AT_ValidateConstraint";
  return commands.length > 0 && commands.every(validates) ? "validations" : "tables";
}

/** Returns the contents of the files of a part: one that merges files, and then each separate one. */
async function gather(sources: readonly Source[], part: Part): Promise<{ subject: string; text: string }[]> {
  const merged: string[] = [];
  const apart: { subject: string; text: string }[] = [];
  let settings = "";
  for (const [index, source] of sources.entries()) {
    if (isGenerated(source)) continue;
    const isLater = sources.slice(0, index).some(isGenerated);
    const belongs = (one: Found) => {
      const own = partOf(one);
      if (isLater && own === "backfills") return part === "later_backfills";
      // What the functions of the release before used can be dropped only after them.
      return (isLater && "DropStmt" in one.node ? "validations" : own) === part;
    };
    const texts = await splitStatements(source.text);
    const isSetting = (at: number) => "VariableSetStmt" in (source.found[at]?.node ?? {});
    const header = separate.exec(source.text);
    // A separate file is one part, that of its first statement.
    const first = source.found.find((_, at) => !isSetting(at));
    if (header) {
      if (header.groups?.late ? part !== "validations" : !first || !belongs(first)) continue;
      apart.push({ subject: source.name.replace(/^\d+_(?:\d+_\d+_\d+_)?|\.sql$/g, ""), text: source.text });
      continue;
    }
    if (!source.found.some((one, at) => !isSetting(at) && belongs(one))) continue;
    const write = (keep: (at: number) => boolean) =>
      texts.flatMap(({ text, offset }, at) => {
        const isParagraph = /\n\s*\n\s*$/.test(source.text.slice(0, offset));
        return keep(at) ? [`${isParagraph && at > 0 ? "\n" : ""}${terminated(text)}`] : [];
      });
    const own = write(isSetting).join("\n");
    // Each file began with the session's defaults.
    if (merged.length > 0 && own !== settings) merged.push("reset all;");
    if (own !== settings) merged.push(own);
    settings = own;
    merged.push(...write((at) => !isSetting(at) && belongs(source.found[at] as Found)));
  }
  return [...(merged.length > 0 ? [{ subject: part, text: `${merged.filter(Boolean).join("\n")}\n` }] : []), ...apart];
}

/** Generates the file of functions, and keeps the reasons for which earlier files dropped functions. */
async function generateFunctions(
  cluster: ScratchCluster,
  options: { folder: string; schemas: string; sources: readonly Source[]; nextName: (subject: string) => string },
): Promise<void> {
  const { folder, schemas, sources, nextName } = options;
  const layout = { dbUrl: await cluster.createDatabase(), migrations: folder, schemas };
  const written = await generateMigration(layout, "functions");
  if (!written) return;
  const reasons = new Map(
    sources.flatMap(({ text }) =>
      [...text.matchAll(/^((?:--[^\n]*\n)+)(drop [^;]+;)/gm)].map(([, reason = "", drop = ""]) => [drop, reason]),
    ),
  );
  const sql = (await readFile(written.file, "utf8")).replace(
    /^drop [^;]+;/gm,
    (drop) => `${reasons.get(drop) ?? ""}${drop}`,
  );
  await writeFile(written.file, sql);
  await rename(written.file, path.join(folder, nextName("functions")));
}

/**
 * Returns one line for each difference between the databases that two folders of migrations build. What differs between
 * two databases of the first folder is random.
 */
async function compareDatabases(cluster: ScratchCluster, ...folders: [string, string]): Promise<string[]> {
  const before = await describeDatabase(await cluster.createDatabase(), folders[0]);
  const again = await describeDatabase(await cluster.createDatabase(), folders[0]);
  const after = await describeDatabase(await cluster.createDatabase(), folders[1]);
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((name) => before[name] !== after[name] && before[name] === again[name])
    .map((name) => `${name}: ${before[name] ?? "missing"}, after the merge ${after[name] ?? "missing"}`);
}

/**
 * Applies migrations and describes what they build: objects, the order of columns, comments, indexes, validated
 * constraints, and a hash of each table's rows without times and UUIDs.
 */
async function describeDatabase(dbUrl: string, directory: string): Promise<Record<string, string>> {
  await applyMigrations({ dbUrl, directory });
  const { objects } = await readContents({ url: "", secretKey: "", dbUrl });
  return withDatabase(dbUrl, async (client) => {
    const { rows } = await client.query<{ name: string; value: string }>(`
      with relations as (
        select c.oid, c.relkind, c.relispartition, format('%I.%I', n.nspname, c.relname) as name
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname in ('public', 'private', 'ai') and c.relkind in ('r', 'p', 'v', 'c')
      ), stable_columns as (
        select r.name, string_agg(format('%I', a.attname), ', ' order by a.attnum) as list
        from relations r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
        where r.relkind = 'r' and not r.relispartition
          and a.atttypid not in ('uuid'::regtype, 'timestamptz'::regtype, 'timestamp'::regtype)
        group by r.name
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
      select 'rows of ' || s.name, (xpath('/row/n/text()', query_to_xml(
        format('select count(*) || '' '' || coalesce(md5(string_agg(t::text, '','' order by t::text)), '''') as n from (select %s from %s) t', s.list, s.name),
        false, true, ''
      )))[1]::text
      from stable_columns s
      union all
      select 'constraint ' || k.conname || ' on ' || r.name, k.convalidated::text
      from relations r join pg_constraint k on k.conrelid = r.oid`);
    return { ...objects, ...Object.fromEntries(rows.map(({ name, value }) => [name, value])) };
  });
}
