import path from "node:path";
import { expect, test } from "vitest";
import { playwrightResult, soakResult, vitestResult } from "./reports.ts";

test("the Vitest report names failures with their messages, without colours, and counts skipped tests and broken files", () => {
  const result = vitestResult({
    testResults: [
      {
        name: path.resolve("scripts/good.test.ts"),
        status: "passed",
        assertionResults: [{ fullName: "counts", status: "passed" }],
      },
      {
        name: "/a.test.ts",
        status: "failed",
        assertionResults: [
          { fullName: "adds", status: "passed", failureMessages: [] },
          {
            fullName: "divides",
            status: "failed",
            failureMessages: ["\u001b[31mAssertionError\u001b[39m: 1 is not 2\nat x"],
          },
          { fullName: "rests", status: "skipped", failureMessages: [] },
        ],
      },
      { name: "/b.test.ts", status: "failed", message: "no such module", assertionResults: [] },
      {
        name: "/c.test.ts",
        status: "failed",
        message: "no stack",
        assertionResults: [{ fullName: "subtracts", status: "skipped" }],
      },
    ],
  });
  expect(result).toEqual({
    passedFiles: ["scripts/good.test.ts"],
    passed: 2,
    failed: 5,
    failures: [
      "/a.test.ts: divides\n  AssertionError: 1 is not 2\n  at x",
      "/a.test.ts: rests\n  skipped",
      "/c.test.ts: subtracts\n  skipped",
      "/b.test.ts\n  no such module",
      "/c.test.ts\n  no stack",
    ],
  });
});

test("the Vitest report ignores tests with the tag that the run left out", () => {
  const skipped = { fullName: "rests", status: "skipped", tags: ["slow"] };
  const report = { testResults: [{ name: "/a.test.ts", status: "passed", assertionResults: [skipped] }] };
  expect(vitestResult(report, "slow")).toMatchObject({ passed: 0, failed: 0, failures: [] });
  expect(vitestResult(report, "fast")).toMatchObject({ failed: 1 });
});

test("the report keeps the beginning of a long message", () => {
  const message = Array.from({ length: 40 }, (_, line) => `line ${line}`).join("\n");
  const { failures } = soakResult({ verdicts: [{ check: "no lost charge", ok: false, failures: [message] }] });
  expect(failures[0]?.split("\n").at(-1)).toBe("  line 11");
});

test("the Playwright report reads nested suites, and counts flaky tests, skipped tests and errors of the whole run as failures", () => {
  const spec = (title: string, status: string, errors: { message: string }[] = []) => ({
    title,
    file: "a.spec.ts",
    line: 7,
    tests: [{ status, results: [{ errors }] }],
  });
  const result = playwrightResult({
    suites: [
      {
        specs: [spec("signs in", "expected")],
        suites: [{ specs: [spec("signs out", "flaky", [{ message: "too late" }]), spec("waits", "skipped")] }],
      },
    ],
    errors: [{ message: "no browser" }],
  });
  expect(result).toEqual({
    passed: 1,
    failed: 3,
    failures: [
      "a.spec.ts:7: signs out\n  too late",
      "a.spec.ts:7: waits\n  skipped",
      "apart from any test\n  no browser",
    ],
  });
});

test("the soak report counts each check as a test, and a report without checks is refused", () => {
  const verdicts = [
    { check: "ledger is runs", ok: true, failures: [] },
    { check: "no stuck run", ok: false, failures: ["run 1", "run 2"] },
  ];
  expect(soakResult({ verdicts })).toEqual({ passed: 1, failed: 1, failures: ["no stuck run\n  run 1\n  run 2"] });
  expect(() => soakResult({ verdicts: [] })).toThrow();
});
