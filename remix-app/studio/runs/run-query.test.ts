import { describe, expect, it } from "vitest";
import { readRunQuery } from "./run-query.ts";

const read = (search: string) =>
  readRunQuery(new URL(`https://a.test/runs${search}`), { requestId: "r", now: new Date("2026-03-31T12:00:00Z") });

describe("readRunQuery", () => {
  it("a run query defaults to all runs of all time", () => {
    expect(read("?status=&model=")).toEqual({
      filter: {},
      sort: "time",
      range: null,
      filterValues: {},
      cursor: undefined,
    });
  });

  const lastMonth = { from: "2026-03-02T00:00:00.000Z", to: "2026-04-01T00:00:00.000Z" };
  const id = "0199c5b8-0000-7000-8000-000000000000";

  it.each(["model=m", "feature=f", "status=failed", `keyId=${id}`, `appId=${id}`])(
    "a run query with %s covers the last 30 days by default, or all time with range=all",
    (filterValues) => {
      expect(read(`?${filterValues}`)).toMatchObject({ filter: lastMonth, range: { preset: "30d" } });
      expect(read(`?${filterValues}&requestId=r`)).toMatchObject({ filter: lastMonth, range: { preset: "30d" } });
      const all = read(`?${filterValues}&range=all`);
      expect([all.range, all.filter.from, all.filter.to]).toEqual([null, undefined, undefined]);
    },
  );

  it.each(["?requestId=r", "?requestId=r&range=all", "?range=all", "?unknown=x"])(
    "a run query with %s defaults to all time",
    (search) => {
      const { range, filter } = read(search);
      expect([range, filter.from, filter.to]).toEqual([null, undefined, undefined]);
    },
  );

  it("a run query covers whole days, and accepts the date presets of other pages", () => {
    const day = { from: "2026-03-01T00:00:00.000Z", to: "2026-03-02T00:00:00.000Z" };
    expect(read("?from=2026-03-01&to=2026-03-01&model=m")).toMatchObject({
      filter: { model: "m", ...day },
      filterValues: { model: "m" },
      range: { preset: "custom", ...day },
    });
    expect(read("?range=last-month").filter).toEqual({
      from: "2026-02-01T00:00:00.000Z",
      to: "2026-03-01T00:00:00.000Z",
    });
  });

  it("a run query can list refused calls, and sort runs by a value", () => {
    expect(read("?status=refused&range=all")).toMatchObject({ filter: { status: "refused" }, sort: "time" });
    expect(read("?sort=cost")).toMatchObject({ filter: {}, sort: "cost", range: null, filterValues: {} });
  });

  it.each(["?sort=price", "?status=odd", "?keyId=1", `?requestId=${"a".repeat(129)}`, "?model=%00", "?feature=a%00b"])(
    "refuses the run query %s",
    (search) => {
      expect(() => read(search)).toThrow(expect.objectContaining({ status: 400 }));
    },
  );
});
