import { expect, test } from "vitest";
import { readCostFileOptions } from "./cost-file-options.ts";

const [workspace, app] = ["0f4b6d1c-0000-4000-8000-000000000001", "0f4b6d1c-0000-4000-8000-000000000002"];
const book = ["--workspace", workspace, "--app", app];

test("parses the options of a cost file import", () => {
  expect(readCostFileOptions(["a.csv", "b.csv.gz", ...book])).toEqual({
    files: ["a.csv", "b.csv.gz"],
    book: { workspace, app },
    provider: undefined,
    account: "default",
    services: [],
    rates: {},
    clear: false,
    yes: false,
  });
  const rest = ["--provider", "AWS=Bedrock", "--account", "acct 1", "--service", "S3", "--service", "Amazon Bedrock"];
  expect(
    readCostFileOptions([
      "a.csv",
      "--platform",
      ...rest,
      "--rate",
      "eur=1.08",
      "--rate",
      "JPY=0.0065",
      "--clear",
      "--yes",
    ]),
  ).toEqual({
    files: ["a.csv"],
    book: null,
    provider: { source: "aws", name: "bedrock" },
    account: "acct 1",
    services: ["S3", "Amazon Bedrock"],
    rates: { EUR: "1.08", JPY: "0.0065" },
    clear: true,
    yes: true,
  });
  expect(readCostFileOptions(["a.csv", "--platform", "--provider", "My-AWS"]).provider).toEqual({
    source: "my-aws",
    name: "my-aws",
  });
});

test.each([
  [[...book], "Name the file to import."],
  [["a.csv"], "Choose where to import: either --workspace and --app, or --platform."],
  [["a.csv", "--platform", "--app", app], "Choose where to import"],
  [["a.csv", "--workspace", workspace], "--workspace and --app take the ids"],
  [["a.csv", "--workspace", "acme", "--app", app], "--workspace and --app take the ids"],
  [["a.csv", "--platform", "--provider", "two words"], "--provider takes a name"],
  [["a.csv", "--platform", "--provider", "aws=bedrock=2"], "--provider takes a name"],
  [["a.csv", "--platform", "--account", " a"], "--account takes an id"],
  [["a.csv", "--platform", "--rate", "EUR"], "--rate takes a currency and its USD, such as EUR=1.08, not EUR."],
  [
    ["a.csv", "--platform", "--rate", "EUR=1,08"],
    "--rate takes a currency and its USD, such as EUR=1.08, not EUR=1,08.",
  ],
  [["a.csv", "--platform", "--rate", "EUR=0"], "--rate takes a currency and its USD, such as EUR=1.08, not EUR=0."],
  [["a.csv", "--platform", "--currency", "EUR"], "Unknown option '--currency'"],
])("refuses the options %j", (argv, message) => {
  expect(() => readCostFileOptions(argv)).toThrow(message);
});
