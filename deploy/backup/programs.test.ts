import { expect, test } from "vitest";
import { connectProgram } from "./programs.ts";

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
