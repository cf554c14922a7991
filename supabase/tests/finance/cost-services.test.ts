import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { asOperator, type CostDocument, createBook, documentOf, usd } from "./cost-file-fixtures.ts";

type Part = [service: number, currency: string, amount: string];

/** Returns a document of the accounts' days, with amounts that are the sums of their parts. */
function billOf(
  days: { day: string; accountId?: string; total: string; parts: Part[] }[],
  changes: Partial<CostDocument>,
) {
  return documentOf(
    days.map(({ day, accountId = "acct-1", total, parts }) => ({
      accountId,
      day,
      amounts: [{ currency: parts[0]?.[1] ?? "USD", amount: total }],
      parts,
    })),
    { format: "focus", provider: "aws", ...changes },
  );
}

const october = (parts: Part[], total: string) => [{ day: "2026-10-03", total, parts }];

/** Returns the services of all counted totals of a book, by the run id of the total. */
async function servicesOf(db: Database, book: Awaited<ReturnType<typeof createBook>>) {
  const { records } = await book.list();
  const answer = await db.asRole("service_role", () =>
    one<{ answer: { records: { id: string; services: object[] }[] } }>(db, {
      sql: "select ai.list_cost_services($1, $2, $3) as answer",
      values: [book.ownerId, book.workspaceId, records.map(({ id }: { id: string }) => id)],
    }),
  );
  return answer.answer.records.map(({ services }) => services);
}

describe("the services of a cost file", () => {
  test("an import keeps the amount of each service, which add up to the total that counts", async ({ db }) => {
    const book = await createBook(db);
    const bill = billOf(
      october(
        [
          [0, "USD", "1.25"],
          [1, "USD", "3"],
          [2, "USD", "-0.5"],
        ],
        "3.75",
      ),
      { services: ["Amazon S3", "Amazon Bedrock", ""], serviceCategories: { "Amazon S3": "Storage" } },
    );
    const { importId } = await book.importPreviewed(bill);
    expect((await book.list()).totals).toMatchObject({ amountUsd: "3.75", records: 1 });
    expect(await servicesOf(db, book)).toEqual([
      [
        { service: null, category: null, amountUsd: "-0.5" },
        { service: "Amazon Bedrock", category: null, amountUsd: "3" },
        { service: "Amazon S3", category: "Storage", amountUsd: "1.25" },
      ],
    ]);
    const { receipt } = await one<{ receipt: object }>(db, {
      sql: "select ai.read_cost_import($1, $2, $3) as receipt",
      values: [book.ownerId, book.workspaceId, importId],
    });
    expect(receipt).toMatchObject({
      current: { amountUsd: "3.75" },
      services: {
        list: [
          { service: "Amazon Bedrock", amountUsd: "3" },
          { service: "Amazon S3", amountUsd: "1.25" },
          { service: null, amountUsd: "-0.5" },
        ],
        others: { services: 0, amountUsd: "0" },
      },
    });
    expect(await book.importPreviewed(bill)).toMatchObject({ importId: null, unchanged: 1 });
  });

  test("services in other currencies add up to the rounded total, and the largest takes what rounding leaves", async ({
    db,
  }) => {
    const book = await createBook(db);
    const third: Part[] = [
      [0, "EUR", "0.0000000000004"],
      [1, "EUR", "0.0000000000004"],
      [2, "EUR", "0.0000000000005"],
    ];
    const bill = billOf(october(third, "0.0000000000013"), { services: ["a", "b", "c"], rates: { EUR: "1.1" } });
    await book.importPreviewed(bill);
    expect((await book.list()).totals.amountUsd).toBe("0.000000000001");
    expect(await servicesOf(db, book)).toEqual([
      [
        { service: "a", category: null, amountUsd: "0" },
        { service: "b", category: null, amountUsd: "0" },
        { service: "c", category: null, amountUsd: "0.000000000001" },
      ],
    ]);
  });

  test("a correction replaces the services, also if only they differ, and a total without services has none", async ({
    db,
  }) => {
    const book = await createBook(db);
    const services = ["a", "b"];
    const first = billOf(october([[0, "USD", "2"]], "2"), { services });
    await book.importPreviewed(first);
    const split = billOf(
      october(
        [
          [0, "USD", "1"],
          [1, "USD", "1"],
        ],
        "2",
      ),
      { services },
    );
    expect(await book.preview(split)).toMatchObject({ corrected: { days: 1, fromUsd: "2", toUsd: "2" } });
    expect(await book.importPreviewed(split)).toMatchObject({ corrected: 1 });
    expect(await servicesOf(db, book)).toMatchObject([[{ service: "a", amountUsd: "1" }, { service: "b" }]]);
    // A file without services, such as one of 0.3.0, leaves them if the total is the same, and removes them otherwise.
    const plain = documentOf([usd("2026-10-03", "2")], { provider: "aws" });
    expect(await book.importPreviewed(plain)).toMatchObject({ importId: null, unchanged: 1 });
    expect(await servicesOf(db, book)).toHaveLength(1);
    const { at } = await one<{ at: string }>(db, {
      sql: "select to_json(now() + interval '50 seconds') #>> '{}' as at",
    });
    await book.store({
      provider: "aws",
      externalRunId: "aws-costs:acct-1:2026-10-03",
      granularity: "account_day",
      occurredAt: "2026-10-03T00:00:00Z",
      amountUsd: "5",
      observedAt: at,
    });
    expect((await book.list()).totals.amountUsd).toBe("5");
    expect(await servicesOf(db, book)).toEqual([]);
    await book.importPreviewed(split);
    expect(await servicesOf(db, book)).toMatchObject([[{ service: "a" }, { service: "b" }]]);
  });

  test("an operator's import keeps the services of a bill with more than 500, and its receipt lists the 50 largest", async ({
    db,
  }) => {
    const book = await createBook(db);
    const services = Array.from({ length: 600 }, (_, n) => `service ${n}`);
    const parts = services.map((_, n): Part => [n, "USD", String(n + 1)]);
    const bill = billOf(october(parts, String((600 * 601) / 2)), { services });
    const { importId } = await asOperator(db, "import_costs", [book.workspaceId, book.appId, bill, null]);
    const [stored = []] = await servicesOf(db, book);
    expect(stored).toHaveLength(600);
    const { receipt } = await one<{ receipt: { services: { list: object[]; others: object } } }>(db, {
      sql: "select ai.read_cost_import($1, $2, $3) as receipt",
      values: [book.ownerId, book.workspaceId, importId],
    });
    expect(receipt.services.list).toHaveLength(50);
    expect(receipt.services.list[0]).toEqual({ service: "service 599", amountUsd: "600" });
    expect(receipt.services.others).toEqual({ services: 550, amountUsd: String((550 * 551) / 2) });
  });

  test("the preview's state changes with the services", async ({ db }) => {
    const book = await createBook(db);
    const stateOf = async (services: string[]) =>
      (await book.preview(billOf(october([[0, "USD", "2"]], "2"), { services }))).state;
    expect(await stateOf(["a"])).not.toBe(await stateOf(["b"]));
  });

  test.for([
    ["parts that do not add up", [[0, "USD", "1.99"]], { services: ["a"] }, "days"],
    ["parts in another currency", [[0, "EUR", "2"]], { services: ["a"], amounts: "USD", rates: { EUR: "1" } }, "days"],
    ["an unknown service", [[1, "USD", "2"]], { services: ["a"] }, "days"],
    ["a service that is not a position", [["a", "USD", "2"]], { services: ["a"] }, "days"],
    ["a day without parts", undefined, { services: ["a"] }, "days"],
    ["no services", [[0, "USD", "2"]], { services: [] }, "services"],
    ["a name with a line break", [[0, "USD", "2"]], { services: ["a\nb"] }, "services"],
    ["more than 5,000 services", [[0, "USD", "2"]], { services: Array.from({ length: 5001 }, String) }, "services"],
    [
      "the category of another service",
      [[0, "USD", "2"]],
      { services: ["a"], serviceCategories: { b: "Web" } },
      "serviceCategories",
    ],
  ] as const)("refuses %s", async ([, parts, changes, param], { db }) => {
    const book = await createBook(db);
    const day = { accountId: "acct-1", day: "2026-10-03", amounts: [{ currency: "USD", amount: "2" }], parts };
    const document = { ...documentOf([day], {}), ...changes };
    expect(await book.preview(document)).toMatchObject({ outcome: "invalid", param });
    expect((await book.list()).records).toEqual([]);
  });

  test("the database refuses services that do not add up to their total", async ({ db }) => {
    const book = await createBook(db);
    await book.importPreviewed(billOf(october([[0, "USD", "2"]], "2"), { services: ["a"] }));
    await expect(
      db.query(`update ai.cost_services set services = '{"a": 1}' where cost_id = $1`, [
        (await book.list()).records[0].id,
      ]),
    ).rejects.toMatchObject({ code: "23514" });
  });

  test("services are private to those who may use the book", async ({ db }) => {
    const [book, other] = [await createBook(db), await createBook(db)];
    await book.importPreviewed(billOf(october([[0, "USD", "2"]], "2"), { services: ["a"] }));
    const ids = (await book.list()).records.map(({ id }: { id: string }) => id);
    const read = (member: string, workspace: string) =>
      one(db, { sql: "select ai.list_cost_services($1, $2, $3) as answer", values: [member, workspace, ids] });
    expect(await read(other.ownerId, book.workspaceId)).toEqual({ answer: { outcome: "not_allowed" } });
    expect(await read(other.ownerId, other.workspaceId)).toEqual({ answer: { outcome: "listed", records: [] } });
  });
});
