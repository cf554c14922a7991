import { type AlterTableCmd, type AlterTableStmt, type DoStmt, type Node, parse } from "libpg-query";

/** Marks a statement that removes something which no running release uses. */
const unused = /^\s*--\s*Unused since \d+\.\d+\.\d+/m;
const longestLockWaitMs = 1_000;

/** A statement and its text, with the comments and white space before it. */
export type Found = { node: Node; text: string };

/**
 * Finds the statements of a migration that would break the previous release's calls, or block them while the migration
 * is applied.
 * @param callable the functions that a role may execute in the previous release. Only functions call the others: they
 * are replaced at the same time, and a call that runs then is repeated.
 */
export async function findDowntime(sql: string, callable: ReadonlySet<string>): Promise<string[]> {
  const found = await readStatements(sql);
  const created = new Set(
    found.flatMap(({ node }) => ("CreateStmt" in node ? [nameOf(node.CreateStmt.relation)] : [])),
  );
  const functions = new Set(
    found.flatMap(({ node }) => ("CreateFunctionStmt" in node ? [namesOf(node.CreateFunctionStmt.funcname)] : [])),
  );
  const faults = found.flatMap((one) => faultsOf(one, { created, functions, callable }));
  const locking = found.findIndex(({ node }) => locksTable(node, created));
  const waits = found.findIndex(({ node }) => isShortLockTimeout(node));
  if (locking >= 0 && (waits < 0 || waits > locking)) {
    faults.push("it locks a table in use: begin the file with `set lock_timeout = '500ms';`, at most 1 s");
  }
  if (locking >= 0 && found.some((one) => changesData(one))) {
    faults.push("it locks a table and changes data: put the change of data into a file of its own");
  }
  const altered = new Set(
    found.flatMap(({ node }) => (altersTable(node, created) ? [nameOf(node.AlterTableStmt.relation)] : [])),
  );
  const listed = new Set(found.flatMap(({ node }) => ("DoStmt" in node ? lockedTables(node.DoStmt) : [])));
  if (found.some(({ node }) => "LockStmt" in node)) {
    faults.push(
      "it locks tables outside a block, which fails in `supabase db push`: write `do $$ begin lock table … in access exclusive mode; end $$;`",
    );
  }
  if (altered.size > 1 && [...altered].some((table) => !listed.has(table))) {
    faults.push(
      "it alters several tables in use: list them in one block with `lock table` first, in the order in which calls lock them",
    );
  }
  return faults;
}

/** Returns the functions that a role may execute, from a release's recorded objects. */
export function listCallable(objects: Readonly<Record<string, string>>): Set<string> {
  const granted = Object.keys(objects).map((name) => /^grants to .* on function ([\w.]+)\(/.exec(name)?.[1]);
  return new Set(granted.filter((name) => name !== undefined));
}

function altersTable(node: Node, created: ReadonlySet<string>): node is { AlterTableStmt: AlterTableStmt } {
  return (
    "AlterTableStmt" in node &&
    node.AlterTableStmt.objtype === "OBJECT_TABLE" &&
    !created.has(nameOf(node.AlterTableStmt.relation)) &&
    !(node.AlterTableStmt.cmds ?? []).every(
      (cmd) => "AlterTableCmd" in cmd && cmd.AlterTableCmd.subtype === "AT_ValidateConstraint",
    )
  );
}

export async function readStatements(sql: string): Promise<Found[]> {
  const bytes = Buffer.from(sql);
  const { stmts = [] } = await parse(sql);
  let start = 0;
  return stmts.flatMap(({ stmt, stmt_location = 0, stmt_len }) => {
    const end = stmt_len ? stmt_location + stmt_len : bytes.length;
    const text = bytes.subarray(start, end).toString();
    start = end;
    return stmt ? [{ node: stmt, text }] : [];
  });
}

type Made = { created: ReadonlySet<string>; functions: ReadonlySet<string>; callable: ReadonlySet<string> };

function faultsOf({ node, text }: Found, { created, functions, callable }: Made): string[] {
  if ("RenameStmt" in node) {
    return ["it renames: add the new name, switch the code, and remove the old one in a later release"];
  }
  if ("DropStmt" in node && !unused.test(text)) {
    const { objects = [], removeType } = node.DropStmt;
    const isUncalled = (name: string) => functions.has(name) || !callable.has(name);
    const replaced =
      removeType === "OBJECT_FUNCTION" &&
      objects.every((one) => "ObjectWithArgs" in one && isUncalled(namesOf(one.ObjectWithArgs.objname)));
    const harmless = ["OBJECT_TRIGGER", "OBJECT_POLICY", "OBJECT_INDEX"].includes(removeType ?? "");
    return replaced || harmless
      ? []
      : [
          "it drops what the release before may use: remove it one release later, after a comment `-- Unused since <release>`",
        ];
  }
  if ("IndexStmt" in node && !created.has(nameOf(node.IndexStmt.relation)) && !node.IndexStmt.if_not_exists) {
    return [
      "it builds an index on a table in use: have the operator build it concurrently first, and write `if not exists` here",
    ];
  }
  if ("AlterTableStmt" in node && !created.has(nameOf(node.AlterTableStmt.relation))) {
    return (node.AlterTableStmt.cmds ?? []).flatMap((cmd) =>
      "AlterTableCmd" in cmd ? faultsOfChange(cmd.AlterTableCmd, text) : [],
    );
  }
  return [];
}

function faultsOfChange({ subtype, def }: AlterTableCmd, text: string): string[] {
  if (subtype === "AT_DropColumn" && !unused.test(text)) {
    return [
      "it drops a column that the release before may use: remove it one release later, after a comment `-- Unused since <release>`",
    ];
  }
  if (subtype === "AT_AlterColumnType")
    return ["it changes a column's type, which may rewrite the table: add a new column"];
  if (subtype === "AT_SetNotNull")
    return [
      "it reads the whole table under a lock: add a check constraint `not valid`, and validate it in the next file",
    ];
  if (subtype === "AT_AddConstraint" && def && "Constraint" in def) {
    const { contype, skip_validation, indexname } = def.Constraint;
    const validates = (contype === "CONSTR_CHECK" || contype === "CONSTR_FOREIGN") && !skip_validation;
    const builds = (contype === "CONSTR_UNIQUE" || contype === "CONSTR_PRIMARY") && !indexname;
    if (validates)
      return ["it checks all rows under a lock: add the constraint `not valid`, and validate it in the next file"];
    if (builds) return ["it builds an index under a lock: use an index that was built concurrently"];
  }
  if (subtype === "AT_AddColumn" && def && "ColumnDef" in def) {
    const kinds = (def.ColumnDef.constraints ?? []).flatMap((one) =>
      "Constraint" in one ? [one.Constraint.contype] : [],
    );
    if (kinds.includes("CONSTR_NOTNULL") && !kinds.includes("CONSTR_DEFAULT")) {
      return ["it adds a required column, which inserts of the release before do not name: give it a default"];
    }
    if (kinds.includes("CONSTR_GENERATED") || def.ColumnDef.constraints?.some(hasComputedDefault)) {
      return [
        "it rewrites the table, which then looks empty to statements that began before (PostgreSQL, Caveats of MVCC): add a plain column, and fill it in the next file",
      ];
    }
  }
  return [];
}

/** Returns whether a default is computed for each row. `now()` is constant within a statement. */
function hasComputedDefault(one: Node): boolean {
  if (!("Constraint" in one) || one.Constraint.contype !== "CONSTR_DEFAULT") return false;
  const { raw_expr } = one.Constraint;
  return raw_expr !== undefined && "FuncCall" in raw_expr && namesOf(raw_expr.FuncCall.funcname) !== "now";
}

function locksTable(node: Node, created: ReadonlySet<string>): boolean {
  if ("AlterTableStmt" in node) return !created.has(nameOf(node.AlterTableStmt.relation));
  if ("LockStmt" in node) return true;
  if ("DoStmt" in node) return isGuard(node.DoStmt) || lockedTables(node.DoStmt).length > 0;
  if ("CreateTrigStmt" in node) return !created.has(nameOf(node.CreateTrigStmt.relation));
  if ("CreatePolicyStmt" in node) return !created.has(nameOf(node.CreatePolicyStmt.table));
  if ("IndexStmt" in node) return !created.has(nameOf(node.IndexStmt.relation));
  if ("CreateStmt" in node)
    return (node.CreateStmt.constraints?.length ?? 0) > 0 && node.CreateStmt.partbound !== undefined;
  return "DropStmt" in node && node.DropStmt.removeType !== "OBJECT_FUNCTION";
}

/** Returns whether a statement changes rows. A `select` counts unless it only protects a table. */
export function changesData({ node, text }: { node: Node; text: string }): boolean {
  if ("DoStmt" in node) return !isGuard(node.DoStmt) && !isCheck(node.DoStmt) && lockedTables(node.DoStmt).length === 0;
  if ("SelectStmt" in node) return !/\b(?:private\.protect_table|ai\.protect_partition)\(/.test(text);
  return dataStatements.some((kind) => kind in node);
}

const dataStatements = ["UpdateStmt", "DeleteStmt", "InsertStmt", "MergeStmt", "TruncateStmt", "CallStmt"];

/** The block around a generated trigger on a table that this version of Supabase Auth may lack. */
const guard =
  /^\s*begin\s+if to_regclass\('(auth\.\w+)'\) is not null then\n\s*(?:--[^\n]*\n\s*)*create or replace trigger [^;]*\son \1\s[^;]*;\s+end if;\s+end\s*$/;

const isGuard = (block: DoStmt) => guard.test(bodyOf(block));

const lockBlock = /^\s*begin\s+lock table\s([\w.,\s]+?)\s+in access exclusive mode;\s+end;?\s*$/;

/**
 * Returns the tables of a block that only locks tables. `supabase db push` pipelines a file's statements: they are one
 * transaction, but `lock table` refuses to run outside a transaction block or a function.
 */
function lockedTables(block: DoStmt): string[] {
  return (
    lockBlock
      .exec(bodyOf(block))?.[1]
      ?.split(",")
      .map((name) => name.trim()) ?? []
  );
}

/** Returns whether a block only reads and raises, such as one that ends an upgrade before it begins. */
function isCheck(block: DoStmt): boolean {
  const body = bodyOf(block).replaceAll(/--[^\n]*|'[^']*'/g, "");
  return /\braise exception\b/.test(body) && !changes.test(body);
}

const changes =
  /\b(insert|update|delete|merge|truncate|execute|perform|call|alter|create|drop|grant|revoke|lock|comment)\b/i;

function bodyOf({ args = [] }: DoStmt): string {
  for (const one of args) {
    if (!("DefElem" in one) || one.DefElem.defname !== "as") continue;
    const { arg } = one.DefElem;
    if (arg !== undefined && "String" in arg) return arg.String.sval ?? "";
  }
  return "";
}

function isShortLockTimeout(node: Node): boolean {
  if (!("VariableSetStmt" in node) || node.VariableSetStmt.name !== "lock_timeout") return false;
  const [value] = node.VariableSetStmt.args ?? [];
  if (!value || !("A_Const" in value)) return false;
  const { sval, ival } = value.A_Const;
  const [, digits, unit] = /^(\d+)\s*(ms|s)?$/.exec(sval?.sval ?? String(ival?.ival ?? "")) ?? [];
  const ms = Number(digits) * (unit === "s" ? 1_000 : 1);
  return ms > 0 && ms <= longestLockWaitMs;
}

export function nameOf(relation: { schemaname?: string; relname?: string } | undefined): string {
  return `${relation?.schemaname ?? "public"}.${relation?.relname}`;
}

function namesOf(names: readonly Node[] | undefined): string {
  return (names ?? []).map((name) => ("String" in name ? name.String.sval : "")).join(".");
}
