import { describe, expect, it } from "vitest";
import { readRunQuery } from "./run-query.ts";

const read = (search: string) =>
  readRunQuery(new URL(`https://a.test/runs${search}`), { requestId: "r", now: new Date("2026-03-31T12:00:00Z") });

describe("readRunQuery", () => {
  it("is all runs of all time without anything", () => {
    expect(read("?status=&model=")).toEqual({ filter: {}, range: null, asked: {}, cursor: undefined });
  });

  it("takes days as whole ones, and presets as every page does", () => {
    const day = { from: "2026-03-01T00:00:00.000Z", to: "2026-03-02T00:00:00.000Z" };
    expect(read("?from=2026-03-01&to=2026-03-01&model=m")).toMatchObject({
      filter: { model: "m", ...day },
      asked: { model: "m" },
      range: { preset: "custom", ...day },
    });
    expect(read("?range=last-month").filter).toEqual({
      from: "2026-02-01T00:00:00.000Z",
      to: "2026-03-01T00:00:00.000Z",
    });
  });

  it.each(["?status=odd", "?keyId=1", `?requestId=${"a".repeat(129)}`, "?model=%00", "?feature=a%00b"])(
    "refuses %s",
    (search) => {
      expect(() => read(search)).toThrow(expect.objectContaining({ status: 400 }));
    },
  );
});
