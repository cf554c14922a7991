import path from "node:path";
import { stripVTControlCharacters } from "node:util";
import { z } from "zod";

/** The result of one tier of `npm test`, read from the tier's own report. */
export type Result = {
  passed: number;
  failed: number;
  /**
   * The failed tests, with the start of their messages. `npm test` prints them again at the end, because a tier's
   * output may be thousands of lines earlier.
   */
  failures: string[];
  /** The test files of a Vitest project in which every test passed, relative to the checkout. */
  passedFiles?: string[];
};

const longestMessageLines = 12;

function failure(name: string, messages: readonly string[]): string {
  const lines = stripVTControlCharacters(messages.join("\n")).split("\n");
  return [name, ...lines.slice(0, longestMessageLines).map((line) => `  ${line}`)].join("\n").trimEnd();
}

const vitestReport = z.object({
  testResults: z.array(
    z.object({
      name: z.string(),
      status: z.string(),
      message: z.string().default(""),
      assertionResults: z.array(
        z.object({
          fullName: z.string(),
          status: z.string(),
          tags: z.array(z.string()).default([]),
          failureMessages: z.array(z.string()).default([]),
        }),
      ),
    }),
  ),
});

/**
 * Reads Vitest's JSON report. Skipped tests and files without tests count as failures.
 * @param withoutTag a tag whose tests were deliberately left out
 */
export function vitestResult(report: unknown, withoutTag = ""): Result {
  const { testResults } = vitestReport.parse(report);
  const tests = testResults.flatMap(({ name, assertionResults }) =>
    assertionResults.filter(({ tags }) => !tags.includes(withoutTag)).map((test) => ({ ...test, name })),
  );
  const bad = tests.filter(({ status }) => status !== "passed");
  // Files that did not load or whose hook failed. Vitest reports no failed test for them.
  const brokenFiles = testResults.filter(
    ({ status, assertionResults }) => status !== "passed" && assertionResults.every((test) => test.status !== "failed"),
  );
  const faulty = new Set([...bad, ...brokenFiles].map(({ name }) => name));
  return {
    passedFiles: testResults.flatMap(({ name }) => (faulty.has(name) ? [] : [path.relative(".", name)])),
    passed: tests.length - bad.length,
    failed: bad.length + brokenFiles.length,
    failures: [
      ...bad.map((test) =>
        failure(`${test.name}: ${test.fullName}`, test.status === "failed" ? test.failureMessages : [test.status]),
      ),
      ...brokenFiles.map(({ name, message }) => failure(name, [message])),
    ],
  };
}

const playwrightError = z.object({ message: z.string().default("") });
const playwrightSuite = z.object({
  specs: z
    .array(
      z.object({
        title: z.string(),
        file: z.string(),
        line: z.number(),
        tests: z.array(
          z.object({
            status: z.string(),
            results: z.array(z.object({ errors: z.array(playwrightError).default([]) })),
          }),
        ),
      }),
    )
    .default([]),
  get suites() {
    return z.array(playwrightSuite).default([]);
  },
});
const playwrightReport = z.object({ suites: z.array(playwrightSuite), errors: z.array(playwrightError).default([]) });

/** Reads Playwright's JSON report. Skipped tests, and tests that passed on a retry, count as failures. */
export function playwrightResult(report: unknown): Result {
  const { suites, errors } = playwrightReport.parse(report);
  const specs = suites.flatMap(specsOf);
  const tests = specs.flatMap(({ tests, ...spec }) => tests.map((test) => ({ ...test, ...spec })));
  const bad = tests.filter(({ status }) => status !== "expected");
  return {
    passed: tests.length - bad.length,
    failed: bad.length + errors.length,
    failures: [
      ...bad.map(({ file, line, title, status, results }) => {
        const messages = results.flatMap((result) => result.errors.map(({ message }) => message));
        return failure(`${file}:${line}: ${title}`, messages.length > 0 ? messages : [status]);
      }),
      ...errors.map(({ message }) => failure("apart from any test", [message])),
    ],
  };
}

function specsOf({ specs, suites }: z.infer<typeof playwrightSuite>): z.infer<typeof playwrightSuite>["specs"] {
  return [...specs, ...suites.flatMap(specsOf)];
}

const soakReport = z.object({
  verdicts: z.array(z.object({ check: z.string(), ok: z.boolean(), failures: z.array(z.string()) })).nonempty(),
});

/** Reads the soak's audit. Each check counts as a test. */
export function soakResult(report: unknown): Result {
  const { verdicts } = soakReport.parse(report);
  const bad = verdicts.filter(({ ok }) => !ok);
  return {
    passed: verdicts.length - bad.length,
    failed: bad.length,
    failures: bad.map(({ check, failures }) => failure(check, failures)),
  };
}
