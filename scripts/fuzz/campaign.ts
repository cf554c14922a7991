import fc from "fast-check";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import { readStack } from "../test/stack.ts";
import { createCoverage } from "./coverage.ts";
import { type Credential, castOf } from "./credentials.ts";
import { changesOf, digestTables, readMoment } from "./guarded.ts";
import { createJudge } from "./judge.ts";
import { requestsOf } from "./requests.ts";
import { closeConnections, send } from "./send.ts";
import { everyTarget, formWords, type Target } from "./targets.ts";

/** The result of a campaign. */
export interface Report {
  seed: number;
  requests: number;
  seconds: number;
  /** How many pairs of a target and a credential were tested, and how many there are. */
  pairs: { asked: number; all: number };
  /** How often each route answered with each status. */
  counts: ReadonlyMap<string, ReadonlyMap<string, number>>;
  slowest: readonly { name: string; durationMs: number }[];
  faults: readonly string[];
  /** Tables changed by requests without a valid credential. */
  changed: readonly string[];
  /** Untested pairs of a target and a credential, and valid credentials that no target accepted. */
  gaps: readonly string[];
  /** Services that exited during the campaign. */
  ended: readonly string[];
}

type Pair = [Target, Credential];

const lanes = 12;
const renewEvery = 400;
/** Extra time for the first round on a busy machine. */
export const longerSeconds = 60;
const mostFaults = 40;
const mostTries = 20;
const slowestShown = 5;

/**
 * Sends every target a request with every credential once, starting with the invalid ones. Then sends new requests with
 * the valid credentials until time runs out.
 * @param options.seconds the duration; the first round may run {@link longerSeconds} longer
 */
export async function runCampaign({ seed, seconds }: { seed: number; seconds: number }): Promise<Report> {
  const started = performance.now();
  const cast = await castOf();
  const targets = everyTarget();
  const { base, ai, satellites } = readStack();
  const origins = { platform: base, gateway: ai, satellite: satellites[0]?.url ?? base };
  const judge = createJudge(cast.secrets);
  const words = formWords();
  const arbitraries = new Map(targets.map((target) => [target, requestsOf(target, { ids: cast.ids, words })]));
  const counts = new Map<string, Map<string, number>>();
  const faults: string[] = [];
  const coverage = createCoverage(targets, { credentials: cast.credentials, isFor });
  let requests = 0;

  async function ask([target, credential]: Pair, own: number): Promise<void> {
    const arbitrary = arbitraries.get(target);
    const [made] = arbitrary ? fc.sample(arbitrary, { numRuns: 1, seed: own }) : [];
    if (!made) return;
    const headers = {
      "x-forwarded-for": newAddress(),
      ...made.headers,
      ...credential.headers(ending.test(target.path)),
    };
    const begun = performance.now();
    let answer = await send(origins[target.at], { ...made, headers });
    // 503 means that the server is busy. It is a fault only if the retry also gets 503.
    if (answer?.status === 503) answer = await send(origins[target.at], { ...made, headers });
    const durationMs = performance.now() - begun;
    // A request for a page's data gets 202 instead of a redirect.
    const status = target.surface === "page" && answer?.status === 202 ? 302 : answer?.status;
    coverage.note({ target, credential, status, durationMs });
    const sent = `${made.method} ${made.path} ${decoded(made.path)} ${JSON.stringify(headers)} ${made.body?.toString() ?? ""}`;
    const found = judge({ surface: target.surface, method: made.method, sent, ...(answer ? { answer } : {}) });
    const of = counts.get(target.name) ?? new Map<string, number>();
    counts.set(target.name, of);
    const outcome = found.length > 0 ? "FAULT" : String(answer?.status);
    of.set(outcome, (of.get(outcome) ?? 0) + 1);
    if (found.length === 0 || faults.length >= mostFaults) return;
    const body = made.body ? ` ${made.body.toString().slice(0, 300)}` : "";
    const odd = JSON.stringify(made.headers).slice(0, 300);
    faults.push(
      `${found.join("; ")} ← seed ${own}, ${credential.name}: ${made.method} ${made.path.slice(0, 300)} ${odd}${body} → ${answer?.status} ${answer?.text.slice(0, 200)}`,
    );
  }

  async function askAll(pairs: Iterable<Pair>, until: number): Promise<void> {
    const queue = pairs[Symbol.iterator]();
    let sinceRenewal = 0;
    let renewal = Promise.resolve();
    const lane = async () => {
      for (let next = queue.next(); !next.done && performance.now() < until; next = queue.next()) {
        const own = seed + requests;
        requests += 1;
        sinceRenewal += 1;
        if (sinceRenewal % renewEvery === 0) renewal = cast.renew();
        await renewal;
        await ask(next.value, own);
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
  }

  try {
    const end = started + seconds * 1_000;
    const strangers = cast.credentials.filter(({ good }) => !good);
    const members = cast.credentials.filter(({ good }) => good);
    const late = end + longerSeconds * 1_000;
    const running = processes();
    const since = await readMoment();
    const before = await digestTables(since);
    await askAll(shuffled(pairsOf(targets, strangers), seed), late);
    const changed = changesOf(before, await digestTables(since));
    // Sends these requests first, before other requests disable what the credentials depend on.
    await askAll(untilServed(targets, { members, served: coverage.served }), late);
    await askAll(shuffled(pairsOf(targets, members), seed), late);
    await askAll(forEver(targets, { members, seed }), end);
    const now = processes();
    const ended = Object.keys(running).filter((name) => running[name] !== now[name]);
    return {
      seed,
      requests,
      seconds: (performance.now() - started) / 1_000,
      pairs: coverage.pairs(),
      counts,
      slowest: coverage.slowest(slowestShown),
      faults,
      changed,
      gaps: coverage.gaps(),
      ended,
    };
  } finally {
    closeConnections();
    await cast.close();
  }
}

/** Returns the pid of each service. A restarted service has another pid. */
function processes(): Record<string, number> {
  return Object.fromEntries(readStack().services.map(({ name, pid }) => [name, pid]));
}

function pairsOf(targets: readonly Target[], credentials: readonly Credential[]): Pair[] {
  return credentials.flatMap((credential) => targets.map((target): Pair => [target, credential]));
}

/**
 * Shuffles pairs, so that a run that times out has not tried only the first credentials. The order depends only on the
 * seed.
 */
function shuffled(pairs: readonly Pair[], seed: number): Pair[] {
  return fc.sample(fc.shuffledSubarray([...pairs], { minLength: pairs.length }), { numRuns: 1, seed })[0] ?? [];
}

/** Paths that end sessions. A credential sent there may not be usable afterwards. */
const ending = /logout|sign-out|delete-account|sessions|auth\/accounts|^\/accounts|password|email|\/mfa|step-up/;

/** Returns whether a target expects this kind of credential. Requests with an expected kind reach the most code. */
function isFor(target: Target, { name }: Credential): boolean {
  return fitting(target).includes(name);
}

function fitting({ surface, path, operation }: Target): readonly string[] {
  if (surface === "gateway") return ["workspace key", "app key", "app token", "bearer"];
  if (/^\/(api\/v1\/)?admin\b/.test(path)) return ["admin"];
  if (surface === "page") return ["cookie"];
  const forApps = operation?.security.some((scheme) => "app" in scheme);
  if (forApps) return ["app"];
  const forMachines = operation?.security.some((scheme) => "service" in scheme);
  return ["cookie", "bearer", "app session", ...(forMachines ? ["service account"] : [])];
}

/**
 * Yields each valid credential with the targets that it is meant for, until the credential gets a 2xx or `mostTries`
 * rounds have passed. Skips deletions, since deleting a workspace also deletes its key.
 */
function* untilServed(
  targets: readonly Target[],
  { members, served }: { members: readonly Credential[]; served: (credential: Credential) => boolean },
): Generator<Pair> {
  const lasting = targets.filter(({ method }) => method !== "DELETE");
  for (let round = 0; round < mostTries; round += 1) {
    for (const pair of pairsOf(lasting, members)) if (isFor(...pair) && !served(pair[1])) yield pair;
  }
}

/**
 * Yields pairs round after round. Each round begins with the pairs whose target is meant for the credential, and
 * continues with all pairs.
 */
function* forEver(
  targets: readonly Target[],
  { members, seed }: { members: readonly Credential[]; seed: number },
): Generator<Pair> {
  const all = pairsOf(targets, members);
  const fit = all.filter((pair) => isFor(...pair));
  for (let round = 1; ; round += 1) {
    yield* shuffled(fit, seed + round);
    yield* shuffled(all, seed + round);
  }
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return "";
  }
}

/** Formats a report for people: a line for each route, then the totals. */
export function printReport(report: Report): string {
  const { seed, requests, seconds, pairs, counts, slowest, faults, changed, gaps, ended } = report;
  const lines = [...counts].map(([name, of]) => `  ${name.padEnd(78)} ${histogram(of)}`);
  const total = new Map<string, number>();
  for (const of of counts.values())
    for (const [status, count] of of) total.set(status, (total.get(status) ?? 0) + count);
  return [
    ...lines,
    `fuzz: ${pairs.asked} of ${pairs.all} pairs of ${counts.size} routes and operations and a credential, ${requests} requests in ${seconds.toFixed(0)} s, seed ${seed}`,
    `outcomes: ${histogram(total)}`,
    `slowest: ${slowest.map(({ name, durationMs }) => `${name} ${durationMs.toFixed(0)} ms`).join(", ")}`,
    ...(changed.length > 0 ? [`changed without a credential: ${changed.join(", ")}`] : []),
    ...gaps.map((gap) => `GAP ${gap}`),
    ...(ended.length > 0 ? [`ended meanwhile: ${ended.join(", ")}`] : []),
    ...faults.map((fault) => `FAULT ${fault}`),
  ].join("\n");
}

function histogram(of: ReadonlyMap<string, number>): string {
  const outcomes = [...of].sort(([a], [b]) => (a < b ? -1 : 1));
  return outcomes.map(([status, count]) => `${status}×${count}`).join(" ");
}
