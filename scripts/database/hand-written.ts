import type { CreateStmt, Node } from "libpg-query";

type Written = { text: string; version: string };

/** Returns the error for a statement that belongs in a hand-written migration instead of `supabase/schemas/`. */
export function handWrittenMigration(node: Node, { text, version }: Written): string {
  if ("CreateStmt" in node) return tableMigration(node.CreateStmt, { text, version });
  const kind = Object.keys(node)[0] ?? "";
  return [
    `${kinds[kind] ?? `this statement (${kind})`} belongs in a migration, because it decides about existing data or access.`,
    `Remove it here and write supabase/migrations/${version}_<name>.sql by hand:`,
    "",
    `${text};`,
  ].join("\n");
}

const kinds: Record<string, string> = {
  AlterTableStmt: "a change of a table",
  CommentStmt: "this comment",
  CompositeTypeStmt: "a type",
  CreateDomainStmt: "a domain",
  CreateEnumStmt: "a type",
  CreateExtensionStmt: "an extension",
  CreatePolicyStmt: "a policy",
  CreateSchemaStmt: "a schema",
  CreateSeqStmt: "a sequence",
  CreateTableAsStmt: "a table or materialized view",
  DefineStmt: "an aggregate, operator or type",
  DeleteStmt: "a change of data",
  DoStmt: "a block of code",
  DropStmt: "a drop",
  IndexStmt: "an index",
  InsertStmt: "a change of data",
  UpdateStmt: "a change of data",
};

function tableMigration({ relation, tableElts }: CreateStmt, { text, version }: Written): string {
  const table = `${relation?.schemaname ?? "public"}.${relation?.relname}`;
  const columns = (tableElts ?? []).flatMap((node) => ("ColumnDef" in node ? [node.ColumnDef.colname] : []));
  return [
    `the table ${table} belongs in a migration, because it holds data.`,
    `Remove it here and write supabase/migrations/${version}_${relation?.relname}.sql by hand:`,
    "",
    `${text};`,
    `comment on table ${table} is '<what a row is>';`,
    "",
    `alter table ${table} enable row level security;`,
    `select private.protect_table('${table}');`,
    "",
    `create policy <name> on ${table} for select to authenticated using (<condition>);`,
    `grant select (${columns.join(", ")}) on ${table} to authenticated;`,
    "",
    "Leave out the policy and the grant where no signed-in user reads it. List the same grant in supabase/schemas/grants.sql.",
  ].join("\n");
}
