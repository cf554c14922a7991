import { createRequestHandler, type ServerBuild } from "@remix-run/node";
import { RemixServer } from "@remix-run/react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import type { GenerationsOutcome } from "./fetch-generations.ts";
import { GenerationCard } from "./generation-card.tsx";
import type { GenerationComparison, GenerationFigures, GenerationRun } from "./read-generations.ts";

const figures = (state: GenerationFigures["state"], changes: Partial<GenerationFigures> = {}): GenerationFigures => ({
  state,
  runs: 10,
  calls: 12,
  named: 12,
  pending: 0,
  unknown: 0,
  meteredUsd: "0.1234",
  chargedUsd: "0.2345",
  ownKeyUsd: null,
  ...changes,
});
const run = (n: number, changes: Partial<GenerationRun> = {}): GenerationRun => ({
  runId: `0193a1b2-0000-7000-8000-${String(n).padStart(12, "0")}`,
  createdAt: "2026-10-03T12:00:00.123456+00:00",
  workspaceId: "00000000-0000-4000-8000-000000000000",
  workspaceName: "Harbour Analytics",
  modelId: "openrouter/anthropic-claude-sonnet-4.5",
  state: "differs",
  calls: 1,
  meteredUsd: "0.000015",
  chargedUsd: "0.5",
  differenceUsd: "0.499985",
  ownKeyUsd: null,
  ...changes,
});
const comparison: GenerationComparison = {
  asOf: "2026-11-30T10:00:00+00:00",
  states: [],
  runs: [],
  total: 0,
  skipped: 0,
  missingKey: null,
};

type Role = "admin" | "finance";

/** Renders the card on a page of its own, for a person with a role in the console. */
async function render(
  changes: Partial<GenerationComparison>,
  {
    outcome = null,
    role = "admin",
    query = "",
  }: { outcome?: GenerationsOutcome | null; role?: Role; query?: string } = {},
): Promise<{ html: string; words: string; buttons: string[] }> {
  const card = () => <GenerationCard comparison={{ ...comparison, ...changes }} outcome={outcome} />;
  const build = {
    entry: {
      module: {
        default: (request: Request, status: number, headers: Headers, page: never) =>
          new Response(renderToStaticMarkup(<RemixServer context={page} url={request.url} />), { status, headers }),
      },
    },
    routes: {
      root: { id: "root", path: "", module: { default: card, loader: () => ({ user: { consoleRole: role } }) } },
    },
    assets: {
      entry: { module: "", imports: [] },
      routes: { root: { id: "root", path: "", hasLoader: true, module: "", imports: [] } },
      url: "",
      version: "",
    },
    future: {},
    isSpaMode: false,
    mode: "production",
  } as unknown as ServerBuild;
  const html = await (
    await createRequestHandler(build, "production")(new Request(`http://gatehouse.test/${query}`))
  ).text();
  expect(html).toContain("<section");
  const words = html.replace(/<[^>]*>/g, " ").replaceAll(/\s+/g, " ");
  return { html, words, buttons: [...html.matchAll(/<button[^>]*>([^<]*)/g)].map(([, label = ""]) => label) };
}

test("the states of a day’s runs add up to its total", async () => {
  const { words, html } = await render({
    states: [
      figures("differs"),
      figures("unknown", { unknown: 3, chargedUsd: "0", meteredUsd: "1.5" }),
      figures("equal", { runs: 1_966, chargedUsd: "20.25", meteredUsd: "20.25" }),
    ],
  });
  expect(words).toMatch(/Different cost.*Not known to OpenRouter.*Same cost.*Total/);
  const [total = ""] = /<th scope="row"><span class="font-medium">Total.*?<\/tr>/.exec(html) ?? [];
  expect(total.replace(/<[^>]*>/g, " ")).toMatch(/1,986 .*36 .*\$20\.4845.*\$21\.8734.*−\$1\.3889/);
  expect(words).not.toContain("Rows are rounded");
});

test.each([figures("pending", { pending: 4 }), figures("unnamed", { named: 0 })])(
  "a total is not compared before OpenRouter is asked about all calls: $state",
  async (incomplete) => {
    const states = [incomplete, figures("equal")];
    const { html } = await render({ states });
    const [total = ""] = /<th scope="row"><span class="font-medium">Total.*?<\/tr>/.exec(html) ?? [];
    expect(total).toContain("not compared");
  },
);

test.for<[what: string, changes: Partial<GenerationComparison>, words: RegExp, buttons: string[]]>([
  ["no run", {}, /No run of this day called OpenRouter/, []],
  [
    "no answer yet",
    { states: [figures("pending", { pending: 12 })] },
    /0 of 12 calls asked/,
    ["Ask OpenRouter for these calls"],
  ],
  ["some answers", { states: [figures("pending", { pending: 4 })] }, /8 of 12 calls asked/, ["Ask for the rest"]],
  ["all answers", { states: [figures("equal")] }, /12 of 12 calls asked/, ["Ask again for all calls"]],
  [
    "unknown calls",
    { states: [figures("unknown", { unknown: 1 })] },
    /12 of 12 calls asked/,
    ["Ask again for unknown calls", "Ask again for all calls"],
  ],
  ["calls without an id only", { states: [figures("unnamed", { named: 0 })] }, /Without a generation ID/, []],
  [
    "no key",
    { states: [figures("pending", { pending: 12 })], missingKey: "OPENROUTER_ADMIN_KEY" },
    /Set OPENROUTER_ADMIN_KEY on the web servers/,
    [],
  ],
])("with %s, the card says what can be asked", async ([, changes, words, buttons]) => {
  const page = await render(changes);
  expect(page.words).toMatch(words);
  expect(page.buttons).toEqual(buttons);
});

test("a request that was cut short says what is left and when to ask again, and can be continued", async () => {
  const states = [figures("equal")];
  const outcome = { answered: 200, unknown: 2, remaining: 1_800, observedBefore: comparison.asOf, failure: null };
  const page = await render({ states }, { outcome });
  expect(page.words).toContain("OpenRouter answered 200 calls and doesn’t know 2 of them. 1,800 calls left to ask.");
  expect(page.buttons).toEqual(["Ask again for the rest"]);
  expect(page.html).toContain(`<input type="hidden" name="observedBefore" value="${comparison.asOf}"/>`);
  const failure = { message: "OpenRouter asks to wait (429).", retryAfterSeconds: 12 };
  const limited = await render({ states }, { outcome: { ...outcome, observedBefore: null, failure } });
  expect(limited.words).toContain("OpenRouter asks to wait (429). Ask again in 12 seconds.");
});

test("own keys explain what OpenRouter does not charge", async () => {
  const states = [figures("differs", { ownKeyUsd: "2.5" })];
  const { words } = await render({ states, runs: [run(1, { ownKeyUsd: "2.5", calls: 3 })], total: 1 });
  expect(words).toContain("$2.50 for calls with your own keys");
  expect(words).toContain("Different cost, 3 calls, own key");
});

test("only admins get links to runs and workspaces", async () => {
  const changes = { states: [figures("differs")], runs: [run(1), run(2, { workspaceName: null })], total: 2 };
  const admin = await render(changes);
  expect(admin.html.match(/href="\/admin\/runs\//g)).toHaveLength(2);
  expect(admin.html.match(/href="\/admin\/workspaces\//g)).toHaveLength(1);
  expect(admin.words).toContain("Deleted workspace");
  const finance = await render(changes, { role: "finance" });
  expect(finance.html).not.toContain('href="/admin/');
  expect(finance.html).toContain(run(1).runId);
});

test("50 of 2,000 runs take less than 60 kB and link to the rest", async () => {
  const runs = Array.from({ length: 50 }, (_, n) => run(n));
  const { html, words } = await render(
    { states: [figures("differs")], runs, total: 2_000, skipped: 100 },
    { query: "?runs=100" },
  );
  expect(html.length).toBeLessThan(60_000);
  expect(words).toContain("Runs 101 to 150 of 2,000");
  expect(html).toContain('href="?runs=150#generations"');
  expect(words).toContain("First page");
  const last = await render(
    { states: [figures("differs")], runs: runs.slice(0, 1), total: 51, skipped: 50 },
    { query: "?runs=50" },
  );
  expect(last.html).not.toContain("Next page");
});
