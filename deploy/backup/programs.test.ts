import { expect, test } from "vitest";
import { connectProgram, requireConnection } from "./programs.ts";

const host = "db.example.com:5432/postgres";

test.each([
  [`postgres://postgres:p%40ss@${host}?sslmode=require`, `postgres://postgres@${host}?sslmode=require`, "p@ss"],
  [`postgres://postgres@${host}?password=p%40ss`, `postgres://postgres@${host}`, "p@ss"],
  [`postgres://postgres@${host}`, `postgres://postgres@${host}`, undefined],
])("a program gets the password of %s in its environment, not in its arguments", (dbUrl, address, password) => {
  const { PGPASSWORD: _, ...surroundings } = process.env;
  const program = connectProgram(dbUrl);
  expect(program.address).toBe(address);
  expect(program.env).toEqual({ ...surroundings, ...(password ? { PGPASSWORD: password } : {}), LC_ALL: "C" });
});

test("a database that cannot be reached is named without its password", async () => {
  const refusal = requireConnection("postgres://postgres:p4ss@127.0.0.1:9/postgres");
  await expect(refusal).rejects.toThrow(/^The database of SUPABASE_DB_URL \(127\.0\.0\.1:9\) cannot be used: /);
  await expect(refusal).rejects.not.toThrow("p4ss");
});
