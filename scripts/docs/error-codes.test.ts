import { expect, test } from "vitest";
import { problems } from "../../remix-app/http/problem.ts";
import { errorCodes, GatewayError } from "../../supabase/functions/_gateway/http/errors.ts";
import { readDocument } from "./documents.ts";

const text = readDocument("docs/errors.md");

test("docs/errors.md has one entry for each problem code of the platform, with its status", () => {
  const expected = Object.entries(problems).map(([code, { status }]) => [code, String(status)]);
  expect(entriesOf("Platform").sort()).toEqual(expected.sort());
});

test("docs/errors.md has one entry for each error code of the gateway, with its status", () => {
  const expected = errorCodes.map((code) => [code, String(new GatewayError(code).status)]);
  expect(entriesOf("AI gateway").sort()).toEqual(expected.sort());
});

/** Returns the code and status of each row below a heading. Checks that every row also has its other two columns. */
function entriesOf(heading: string): string[][] {
  const section = text.split("\n## ").find((part) => part.startsWith(`${heading}\n`)) ?? "";
  const rows = [...section.matchAll(/^\| `(\w+)` \| (\d{3}) \| [^|]+ \| [^|]+ \|$/gm)];
  expect(rows.length).toBe(section.match(/^\| `/gm)?.length);
  return rows.map(([, code = "", status = ""]) => [code, status]);
}
