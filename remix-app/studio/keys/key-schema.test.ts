import { expect, test } from "vitest";
import { newKeySchema } from "./key-schema.ts";

test.for([
  ["2999-01-01T00:00:00Z", "2000-01-01T00:00:00Z"],
  ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.9999999Z"],
  ["9999-12-31T22:59:59-01:00", "9999-12-31T23:59:59-01:00"],
])("a key may expire at %s, but not at %s", ([inside, outside]) => {
  const taken = (expiresAt: string | undefined) => newKeySchema.safeParse({ name: "K", expiresAt }).success;
  expect([taken(inside), taken(outside)]).toEqual([true, false]);
});
