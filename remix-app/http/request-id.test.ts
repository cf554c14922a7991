import { expect, test } from "vitest";
import { readRequestId } from "./request-facts.ts";

const idOf = (given: string) => readRequestId(new Headers({ "x-request-id": given }));

test("keeps a valid request id and replaces any other", () => {
  expect(idOf("aZ09._:-")).toBe("aZ09._:-");
  expect(idOf("a".repeat(128))).toHaveLength(128);
  for (const bad of ["a".repeat(129), "", "a b", "a\u00e9", '"a"', "a,b"]) expect(idOf(bad)).toMatch(/^[0-9a-f-]{36}$/);
  expect(readRequestId(new Headers())).toMatch(/^[0-9a-f-]{36}$/);
});
