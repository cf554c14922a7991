import { expect, test } from "vitest";
import { requestIdOf } from "./request-facts.ts";

const idOf = (given: string) => requestIdOf(new Headers({ "x-request-id": given }));

test("keeps a valid request id and replaces any other", () => {
  expect(idOf("aZ09._:-")).toBe("aZ09._:-");
  expect(idOf("a".repeat(128))).toHaveLength(128);
  for (const bad of ["a".repeat(129), "", "a b", "a\u00e9", '"a"', "a,b"]) expect(idOf(bad)).toMatch(/^[0-9a-f-]{36}$/);
  expect(requestIdOf(new Headers())).toMatch(/^[0-9a-f-]{36}$/);
});
