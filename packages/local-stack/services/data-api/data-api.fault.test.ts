import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDataApi, type DataApi, type DataApiCaller } from "./data-api.ts";
import { createFaultDatabase, type FaultDatabase } from "./fault-database.ts";

const owner = "5c1a5c80-0000-4000-8000-000000000001";
const anon: DataApiCaller = { kind: "publishable", claims: { role: "anon" } };
const user: DataApiCaller = { kind: "publishable", claims: { role: "authenticated", sub: owner } };
const service: DataApiCaller = { kind: "secret", claims: { role: "service_role" } };

/** All privileges and policies. */
const grants = `
  select 'relation', oid::regclass::text, relacl::text from pg_class where relacl is not null
  union all select 'schema', nspname, nspacl::text from pg_namespace
  union all select 'function', oid::regprocedure::text, proacl::text from pg_proc where proacl is not null
  union all select 'column', attrelid::regclass || '.' || attname, attacl::text from pg_attribute where attacl is not null
  union all select 'default', defaclrole::regrole || ' ' || defaclobjtype::text, defaclacl::text from pg_default_acl
  union all select 'member', roleid::regrole || ' ' || member::regrole, inherit_option::text from pg_auth_members
  union all select 'role', rolname, concat(rolsuper, rolinherit, rolbypassrls, rolconfig) from pg_roles
  order by 1, 2, 3`;

let database: FaultDatabase;
let api: DataApi;

async function ask(caller: DataApiCaller, target: string, init?: RequestInit) {
  const address = new URL(`http://gateway/rest/v1${target}`);
  const response = await api.handle(new Request(address, init), { url: address, caller });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === "" ? null : JSON.parse(text) };
}

function call(caller: DataApiCaller, name: string, args: object = {}) {
  const headers = { "content-type": "application/json" };
  return ask(caller, `/rpc/${name}`, { method: "POST", headers, body: JSON.stringify(args) });
}

function insert(caller: DataApiCaller, row: object) {
  const headers = { "content-type": "application/json", prefer: "return=representation" };
  return ask(caller, "/notes", { method: "POST", headers, body: JSON.stringify(row) });
}

beforeAll(async () => {
  database = await createFaultDatabase();
  api = createDataApi({ databaseUrl: database.url("authenticator"), schemas: ["public", "private"] });
});

afterAll(async () => {
  await api.close();
  await database.remove();
});

describe("the Data API", () => {
  test("the Data API finds tables that migrations create after its start, without changing privileges", async () => {
    expect(await ask(service, "/notes")).toMatchObject({ status: 404, body: { code: "PGRST205" } });
    await database.applySchema();
    const before = await database.query(grants);
    await expect.poll(async () => (await ask(service, "/notes")).status, { timeout: 5_000 }).toBe(200);
    await Promise.all([
      ask(anon, "/notes"),
      ask(user, "/notes"),
      insert(user, { body: "first" }),
      call(anon, "settings"),
    ]);
    expect(await database.query(grants)).toEqual(before);
  });

  test("a Data API request runs as the caller's role, with the caller's claims and time limit", async () => {
    expect((await call(anon, "settings")).body).toEqual({
      role: "anon",
      claims: { role: "anon" },
      timeout: "3s",
      path: "/rpc/settings",
    });
    expect((await call(user, "settings")).body).toMatchObject({
      role: "authenticated",
      claims: { sub: owner },
      timeout: "8s",
    });
    expect((await call(service, "settings")).body).toMatchObject({ role: "service_role", timeout: "8s" });
  });

  test("the Data API leaks nothing from one caller to the next on the same connection", async () => {
    const seen = await Promise.all(
      Array.from({ length: 200 }, async (_, index) => {
        const [caller, role] = index % 2 === 0 ? [user, "authenticated"] : ([anon, "anon"] as const);
        return (await call(caller, "settings")).body.role === role;
      }),
    );
    expect(seen).not.toContain(false);
  });

  test("the Data API enforces policies and grants on rows and columns", async () => {
    const mine = await insert(user, { body: "mine" });
    expect(mine).toMatchObject({ status: 201, body: [{ owner, body: "mine", price: 12.5 }] });
    const other = { ...user, claims: { ...user.claims, sub: "5c1a5c80-0000-4000-8000-000000000002" } };
    expect((await ask(other, "/notes?body=eq.mine")).body).toEqual([]);
    expect(await insert(other, { body: "stolen", owner })).toMatchObject({ status: 403, body: { code: "42501" } });
    expect(await insert(user, { body: "expensive", price: 1 })).toMatchObject({ status: 403, body: { code: "42501" } });
    expect(await ask(user, "/notes?body=eq.mine", { method: "DELETE" })).toMatchObject({ status: 403 });
    expect(await ask(anon, "/notes")).toMatchObject({ status: 401, body: { code: "42501" } });
  });

  describe("limits of hosted Supabase", () => {
    const change = (target: string, method: "PATCH" | "DELETE") => {
      const headers = { "content-type": "application/json", prefer: "return=representation" };
      return ask(service, target, { method, headers, ...(method === "PATCH" ? { body: '{"value":5}' } : {}) });
    };
    const values = async () =>
      (await database.query("select value from public.counters order by id")).map((r) => r.value);

    // The expected messages are those of safeupdate, which hosted Supabase loads: supabase/postgres,
    // 20220118070449_enable-safeupdate-postgrest.sql.
    test.each([
      ["PATCH", "UPDATE"],
      ["DELETE", "DELETE"],
    ] as const)("the Data API refuses %s without a filter, and accepts it with one", async (method, statement) => {
      const before = await values();
      expect(await change("/counters", method)).toMatchObject({
        status: 400,
        body: { code: "21000", message: `${statement} requires a WHERE clause`, details: null, hint: null },
      });
      expect(await values()).toEqual(before);
      expect(await change("/counters?id=eq.2", method)).toMatchObject({ status: 200, body: [{ id: 2 }] });
    });

    // PostgREST, "Transactions", "Access Mode": STABLE and IMMUTABLE functions are read-only for every method.
    test.each(["stable_count", "immutable_count", "mixed"])(
      "the Data API runs the function %s in a read-only transaction when the method is POST",
      async (name) => {
        const before = await values();
        expect(await call(service, name)).toMatchObject({ status: 405, body: { code: "25006" } });
        expect(await values()).toEqual(before);
      },
    );

    test.each(["count_up", "mixed"])(
      "the Data API lets the volatile function %s write when the method is POST",
      async (name) => {
        const [before] = await values();
        expect(await call(service, name, { by: 1 })).toMatchObject({ status: 200, body: Number(before) + 1 });
      },
    );

    // The time limits of supabase/postgres: 00000000000000-initial-schema.sql, 20221028101028 and 20231130133139.
    test("the Data API sets the same time limits as hosted Supabase", async () => {
      expect((await call(anon, "limits")).body).toEqual({ statement: "3s", lock: "8s" });
      expect((await call(user, "limits")).body).toEqual({ statement: "8s", lock: "8s" });
      expect((await call(service, "limits")).body).toEqual({ statement: "8s", lock: "8s" });
      const rows = await database.query("select rolconfig from pg_roles where rolname = 'supabase_auth_admin'");
      expect(rows[0]?.rolconfig).toContain("idle_in_transaction_session_timeout=60000");
    });

    test("refuses a function's UPDATE without WHERE if Postgres has the library safeupdate", async () => {
      const [role] = await database.query("select rolconfig from pg_roles where rolname = 'authenticator'");
      const isLoaded = String(role?.rolconfig).includes("session_preload_libraries=safeupdate");
      if (!isLoaded)
        console.log("Postgres has no safeupdate: what functions do is only read, by unfiltered-changes.test.ts");
      const refused = { status: 400, body: { code: "21000", message: "UPDATE requires a WHERE clause" } };
      expect(await call(service, "reset_all")).toMatchObject(isLoaded ? refused : { status: 204 });
    });
  });

  test("the Data API gives only the service role access to a schema that is not meant for users", async () => {
    const headers = { "accept-profile": "private" };
    expect(await ask(service, "/secrets", { headers })).toMatchObject({ status: 200, body: [] });
    expect((await ask(anon, "/secrets", { headers })).status).toBe(401);
    expect((await ask(user, "/secrets", { headers })).status).toBe(403);
    expect(await ask(service, "/users", { headers: { "accept-profile": "auth" } })).toMatchObject({
      status: 406,
      body: { code: "PGRST106" },
    });
  });

  test("the Data API refuses a token with a role that the authenticator may not assume", async () => {
    for (const [role, status] of [
      ["postgres", 403],
      ["supabase_admin", 403],
      ["no_such_role", 401],
    ] as const) {
      expect((await call({ ...user, claims: { role } }, "settings")).status).toBe(status);
    }
  });

  test("read requests run read-only, and a refused request is rolled back", async () => {
    expect(await ask(service, "/rpc/add?a=1&b=2")).toMatchObject({ status: 200, body: 3 });
    const headers = {
      "content-type": "application/json",
      prefer: "return=representation",
      accept: "application/vnd.pgrst.object+json",
    };
    const body = JSON.stringify({ price: 99 });
    const refused = await ask(service, "/notes?id=gt.0", { method: "PATCH", headers, body });
    expect(refused).toMatchObject({ status: 406, body: { code: "PGRST116" } });
    expect((await ask(service, "/notes?price=eq.99")).body).toEqual([]);
  });

  test.each([
    ["raise", 400, { code: "P0001", message: "no", details: "d", hint: "h" }],
    ["status", 402, { code: "PT402", message: "pay first" }],
    ["whole", 418, { code: "X1", message: "teapot" }],
    ["serialise", 500, { code: "40001" }],
    ["slow", 500, { code: "57014" }],
  ])("the Data API responds to the exception %s with %i", async (kind, status, body) => {
    expect(await call(anon, "fail", { kind })).toMatchObject({ status, body });
  });

  test("the Data API reports violated constraints, wrong types and unknown names as PostgREST does", async () => {
    await insert(service, { body: "taken", owner });
    expect(await insert(service, { body: "taken", owner })).toMatchObject({ status: 409, body: { code: "23505" } });
    expect(await insert(service, { body: "", owner })).toMatchObject({ status: 400, body: { code: "23514" } });
    expect(await insert(service, { body: "x", owner: "no uuid" })).toMatchObject({
      status: 400,
      body: { code: "22P02" },
    });
    expect(await ask(service, "/notes?nothing=eq.1")).toMatchObject({ status: 400, body: { code: "42703" } });
    expect(await call(anon, "nothing")).toMatchObject({ status: 404, body: { code: "PGRST202" } });
  });

  test("the Data API writes and reads values of every kind as PostgREST does", async () => {
    const row = {
      id: 1,
      j: { a: [1, "x"] },
      js: [1, 2],
      t: ["a", "b,c", '"'],
      n: [1, 2],
      x: '{"not":"json"}',
      at: "2026-01-01T00:00:00Z",
      num: "12.123456789012345678",
      by: "\\xdead",
      jj: [{ a: 1 }],
      m: "calm",
      ms: ["calm", "wild"],
    };
    const headers = { "content-type": "application/json", prefer: "return=representation" };
    const address = new URL("http://gateway/rest/v1/kinds");
    const request = new Request(address, { method: "POST", headers, body: JSON.stringify(row) });
    const text = await (await api.handle(request, { url: address, caller: service })).text();
    expect(text).toContain('"num":12.123456789012345678,');
    expect(JSON.parse(text)).toEqual([{ ...row, at: "2026-01-01T00:00:00+00:00", num: Number(row.num) }]);
    const scalars = { j: "text", js: 5, t: [], x: null };
    const updated = await ask(service, "/kinds?id=eq.1", { method: "PATCH", headers, body: JSON.stringify(scalars) });
    expect(updated.body).toMatchObject([scalars]);
  });

  test.each([
    [{ a: 1 }, 'object {"a": 1}'],
    [[1, 2], "array [1, 2]"],
    ["text", 'string "text"'],
    ["5", 'string "5"'],
    [5, "number 5"],
    [true, "boolean true"],
    [null, null],
  ])("the Data API passes %j to a function as exactly that JSON value", async (value, kind) => {
    expect((await call(anon, "kind_of", { value })).body).toBe(kind);
  });

  test("the Data API serves a newly created table, and a newly added column after a schema reload", async () => {
    await database.query("create table public.later (id int); insert into public.later values (1)");
    await expect.poll(async () => (await ask(service, "/later")).status, { timeout: 5_000 }).toBe(200);
    await database.query("alter table public.later add added int default 2; notify pgrst, 'reload schema'");
    const update = () =>
      ask(service, "/later?id=eq.1", {
        method: "PATCH",
        headers: { "content-type": "application/json" },
        body: '{"added":3}',
      });
    await expect.poll(async () => (await update()).status, { timeout: 5_000 }).toBe(204);
  });
});
