import { expect, test } from "vitest";
import { selfTimeByOrigin } from "./profile.ts";

test("self time goes to the package, to our own code, to Node or to V8; what is outside the span, or waits, counts for nothing", () => {
  const node = (id: number, functionName: string, url = "") => ({ id, callFrame: { functionName, url } });
  const profile = {
    nodes: [
      node(1, "(root)"),
      node(2, "(idle)"),
      node(3, "(garbage collector)"),
      node(4, "query", "file:///app/node_modules/pg/lib/client.js"),
      node(5, "sign", "file:///app/node_modules/@scope/jwt/index.js"),
      node(6, "signIn", "file:///app/scripts/local-stack/services/identity/core/tokens.ts"),
      node(7, "emit", "node:events"),
      node(8, "writev"),
    ],
    startTime: 1_000_000,
    samples: [6, 2, 3, 4, 5, 6, 7, 8, 4, 6],
    timeDeltas: [9_000, 5_000, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 2_000, 1_000],
  };
  const times = selfTimeByOrigin(profile, { from: 1_010_000, to: 1_037_000 });
  expect(Object.fromEntries(times)).toEqual({
    "garbage collector": 1,
    pg: 4,
    "@scope/jwt": 3,
    "identity server": 4,
    Node: 11,
  });
  expect([...times.keys()][0]).toBe("Node");
});
