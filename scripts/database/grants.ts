import type { GrantStmt } from "libpg-query";
import type pg from "pg";

/** Kinds of objects on which privileges are granted. Functions include procedures; tables include their columns. */
type GrantKind = "function" | "view" | "table" | "sequence" | "schema" | "type";

/** One privilege of one role on one object or column. */
export type Grant = {
  kind: GrantKind;
  /** The object as a grant names it after `on`: `function private.f(integer)`, `table public.notes`. */
  target: string;
  column: string | null;
  grantee: string;
  privilege: string;
  grantable: boolean;
};

/**
 * The privileges on all objects of `$1`. `acl` has the current privileges, and `initial` has the ones that default
 * privileges give. Partitions are left out: their names depend on the date, and the function that creates them sets
 * their privileges.
 */
const objectsSql = `
  with found as (
    select case when p.prokind = 'p' then 'procedure' else 'function' end as word, 'function' as kind,
      format('%I.%I(%s)', n.nspname, p.proname, oidvectortypes(p.proargtypes)) as name,
      p.proowner as owner, n.oid as namespace, 'f'::"char" as objtype, p.proacl as acl
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = any ($1) and p.prokind <> 'a'
    union all
    select case c.relkind when 'S' then 'sequence' else 'table' end,
      case c.relkind when 'S' then 'sequence' when 'v' then 'view' else 'table' end,
      format('%I.%I', n.nspname, c.relname), c.relowner, n.oid, case c.relkind when 'S' then 's' else 'r' end::"char", c.relacl
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any ($1) and c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition
    union all
    select 'type', 'type', format('%I.%I', n.nspname, t.typname), t.typowner, n.oid, 'T', t.typacl
    from pg_type t join pg_namespace n on n.oid = t.typnamespace left join pg_class c on c.oid = t.typrelid
    where n.nspname = any ($1) and (t.typtype in ('e', 'd') or c.relkind = 'c')
    union all
    select 'schema', 'schema', quote_ident(n.nspname), n.nspowner, 0::oid, 'n', n.nspacl
    from pg_namespace n where n.nspname = any ($1) and n.nspname <> 'public'
  ), objects as (
    select word, kind, name, coalesce(acl, acldefault(objtype, owner)) as acl, array_cat(
      coalesce(
        (select d.defaclacl from pg_default_acl d where d.defaclrole = owner and d.defaclnamespace = 0
          and d.defaclobjtype = case objtype when 's' then 'S' else objtype end),
        acldefault(objtype, owner)
      ),
      (select d.defaclacl from pg_default_acl d where d.defaclrole = owner and d.defaclnamespace = namespace
        and d.defaclobjtype = case objtype when 's' then 'S' else objtype end)
    ) as initial
    from found
  )`;

const select = (acl: "acl" | "initial") => `
  select o.kind, o.word || ' ' || o.name as target, null as "column",
    case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as grantee,
    lower(a.privilege_type) as privilege, bool_or(a.is_grantable) as grantable
  from objects o cross join lateral aclexplode(o.${acl}) a
  group by 1, 2, 4, 5`;

const columnsSql = `
  select case c.relkind when 'v' then 'view' else 'table' end, format('table %I.%I', n.nspname, c.relname), quote_ident(t.attname),
    case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,
    lower(a.privilege_type), bool_or(a.is_grantable)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute t on t.attrelid = c.oid and not t.attisdropped cross join lateral aclexplode(t.attacl) a
  where n.nspname = any ($1) and not c.relispartition
  group by 1, 2, 3, 4, 5`;

/** Reads every privilege on the objects of `schemas`. Requires an empty search path. */
export async function readGrants(client: pg.Client, schemas: readonly string[]): Promise<Grant[]> {
  const { rows } = await client.query<Grant>(`${objectsSql} ${select("acl")} union all ${columnsSql}`, [schemas]);
  return rows;
}

/** Reads the privileges that the objects of `schemas` would have if they were new. Requires an empty search path. */
export async function readInitialGrants(client: pg.Client, schemas: readonly string[]): Promise<Grant[]> {
  const { rows } = await client.query<Grant>(`${objectsSql} ${select("initial")}`, [schemas]);
  return rows;
}

/**
 * Returns the kinds of objects whose privileges `grants.sql` decides: always functions and views, and any other kind
 * that it has a statement about.
 */
export function governedKinds(grants: readonly GrantStmt[], isView: (table: string) => boolean): Set<GrantKind> {
  const kinds = new Set<GrantKind>(["function", "view"]);
  for (const { objtype, objects } of grants) {
    if (objtype === "OBJECT_SCHEMA") kinds.add("schema");
    if (objtype === "OBJECT_SEQUENCE") kinds.add("sequence");
    if (objtype === "OBJECT_TYPE" || objtype === "OBJECT_DOMAIN") kinds.add("type");
    const ofTables = (objects ?? []).some(
      (node) => !("RangeVar" in node) || !isView(`${node.RangeVar.schemaname ?? "public"}.${node.RangeVar.relname}`),
    );
    if (objtype === "OBJECT_TABLE" && ofTables) kinds.add("table");
  }
  return kinds;
}

/**
 * Returns the statements that turn the privileges `from` into `to`. Revokes come first, and each statement is for one
 * object and role.
 */
export function grantChanges(from: readonly Grant[], to: readonly Grant[]): string[] {
  const [before, after] = [from, to].map((grants) => new Map(grants.map((grant) => [keyOf(grant), grant])));
  const lost = from.filter((grant) => !after?.has(keyOf(grant)));
  const gained = to.filter((grant) => !before?.has(keyOf(grant)));
  return [...statements("revoke", lost), ...statements("grant", gained)];
}

function keyOf({ target, column, grantee, privilege, grantable }: Grant): string {
  return JSON.stringify([target, column, grantee, privilege, grantable]);
}

function statements(verb: "grant" | "revoke", grants: readonly Grant[]): string[] {
  const groups = Map.groupBy(grants, ({ target, grantee, grantable }) => JSON.stringify([target, grantee, grantable]));
  return [...groups.values()]
    .map((group) => {
      const [{ target = "", grantee = "", grantable = false } = {}] = group;
      const privileges = [...Map.groupBy(group, ({ privilege }) => privilege)].flatMap(([privilege, same]) => {
        const columns = same.flatMap(({ column }) => (column === null ? [] : [column]));
        const whole = columns.length < same.length ? [privilege] : [];
        return columns.length > 0 ? [...whole, `${privilege} (${columns.sort().join(", ")})`] : whole;
      });
      const what = `${privileges.sort().join(", ")} on ${target}`;
      return verb === "grant"
        ? `grant ${what} to ${grantee}${grantable ? " with grant option" : ""}`
        : `revoke ${what} from ${grantee}`;
    })
    .sort();
}
