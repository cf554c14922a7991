import fc from "fast-check";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import { readStack } from "../test/stack.ts";
import { createCoverage } from "./coverage.ts";
import { type Cast, type Credential, castOf } from "./credentials.ts";
import { changesOf, digestTables, readMoment } from "./guarded.ts";
import { createJudge } from "./judge.ts";
import { requestsOf } from "./requests.ts";
import { closeConnections, send } from "./send.ts";
import { everyTarget, formWords, type Target } from "./targets.ts";

/** What a campaign came to. */
export interface Report {
  seed: number;
  requests: number;
  seconds: number;
  /** How often each route was answered by each status. */
  counts: ReadonlyMap<string, ReadonlyMap<string, number>>;
  faults: readonly string[];
  /** Tables that requests without a good credential have changed. */
  changed: readonly string[];
  /** Who has not asked what, and good credentials that got nothing. */
  gaps: readonly string[];
  /** Services that ended meanwhile. */
  ended: readonly string[];
}

const lanes = 12;
const renewEvery = 400;
/** Beyond the time, for what is asked in any case, on a busy machine. */
const longerSeconds = 15;
const mostFaults = 40;

/**
 * Asks every target with every credential, first those that are none, then all, in new ways until the time is over.
 * @param options.seconds at most, but for what each target is asked at least
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
  const coverage = createCoverage(targets, cast.credentials);
  let requests = 0;

  async function ask(target: Target, credential: Credential): Promise<void> {
    const own = seed + requests;
    requests += 1;
    const arbitrary = arbitraries.get(target);
    const [made] = arbitrary ? fc.sample(arbitrary, { numRuns: 1, seed: own }) : [];
    if (!made) return;
    const headers = {
      "x-forwarded-for": newAddress(),
      ...made.headers,
      ...credential.headers(ending.test(target.path)),
    };
    const answer = await send(origins[target.at], { ...made, headers });
    coverage.note({ target, credential, status: answer?.status });
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

  async function askAll(pairs: Iterable<[Target, Credential]>, until: number): Promise<void> {
    const queue = pairs[Symbol.iterator]();
    let sinceRenewal = 0;
    let renewal = Promise.resolve();
    const lane = async () => {
      for (let next = queue.next(); !next.done && performance.now() < until; next = queue.next()) {
        sinceRenewal += 1;
        if (sinceRenewal % renewEvery === 0) renewal = cast.renew();
        await renewal;
        await ask(...next.value);
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
    await askAll(strangersOf(targets, strangers, seed), late);
    const changed = changesOf(before, await digestTables(since));
    await askAll(oncePerTarget(targets, members), late);
    await askAll(shuffled(fittingOf(targets, members), seed), end);
    await askAll(shuffled(pairsOf(targets, members), seed), end);
    await askAll(forEver(targets, members), end);
    const now = processes();
    const ended = Object.keys(running).filter((name) => running[name] !== now[name]);
    const took = (performance.now() - started) / 1_000;
    return { seed, requests, seconds: took, counts, faults, changed, gaps: coverage.gaps(), ended };
  } finally {
    closeConnections();
    await cast.close();
  }
}

/** The pid of each service: who ended and was started again has another. */
function processes(): Record<string, number> {
  return Object.fromEntries(readStack().services.map(({ name, pid }) => [name, pid]));
}

/** Each operation by all whom it is for, and each page by one of them in turn. */
function* oncePerTarget(targets: readonly Target[], members: Cast["credentials"]): Generator<[Target, Credential]> {
  for (const [index, target] of targets.entries()) {
    const fit = members.filter(({ name }) => fitting(target).includes(name));
    const asking = target.surface === "page" ? fit.slice(index % fit.length).slice(0, 1) : fit;
    for (const credential of asking) yield [target, credential];
  }
}

/** For each target nobody at all, and two of those who are not whom they say. */
function* strangersOf(
  targets: readonly Target[],
  [nobody, ...others]: Cast["credentials"],
  seed: number,
): Generator<[Target, Credential]> {
  for (const [index, target] of targets.entries()) {
    const two = [0, 1].map((next) => others[(seed + 2 * index + next) % others.length]);
    for (const credential of [nobody, ...two]) if (credential) yield [target, credential];
  }
}

/** In an order that the seed alone decides, so that whoever runs out of time has asked by every credential. */
function shuffled<Item>(items: Iterable<Item>, seed: number): Item[] {
  const all = [...items];
  return fc.sample(fc.shuffledSubarray(all, { minLength: all.length }), { numRuns: 1, seed })[0] ?? [];
}

function* pairsOf(targets: readonly Target[], credentials: Cast["credentials"]): Generator<[Target, Credential]> {
  for (const credential of credentials) for (const target of targets) yield [target, credential];
}

/** What sessions end by; whoever asks it once has none for the rest. */
const ending = /logout|sign-out|delete-account|sessions|auth\/accounts|^\/accounts|password|email|\/mfa|step-up/;

/** Each target with the credentials that it is for, whose requests get furthest. */
function* fittingOf(targets: readonly Target[], credentials: Cast["credentials"]): Generator<[Target, Credential]> {
  for (const [target, credential] of pairsOf(targets, credentials)) {
    if (fitting(target).includes(credential.name)) yield [target, credential];
  }
}

function fitting({ surface, operation }: Target): readonly string[] {
  if (surface === "gateway") return ["workspace key", "app key", "app token", "bearer"];
  if (surface === "page") return ["cookie", "admin"];
  const forApps = operation?.security.some((scheme) => "app" in scheme);
  return forApps ? ["app"] : ["cookie", "bearer", "app session"];
}

function* forEver(targets: readonly Target[], credentials: Cast["credentials"]): Generator<[Target, Credential]> {
  for (;;) {
    yield* fittingOf(targets, credentials);
    yield* pairsOf(targets, credentials);
  }
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return "";
  }
}

/** A report for people: a line for each route, then the sums. */
export function printReport({ seed, requests, seconds, counts, faults, changed, gaps, ended }: Report): string {
  const lines = [...counts].map(([name, of]) => {
    const outcomes = [...of].sort(([a], [b]) => (a < b ? -1 : 1)).map(([status, count]) => `${status}×${count}`);
    return `  ${name.padEnd(78)} ${outcomes.join(" ")}`;
  });
  const total = new Map<string, number>();
  for (const of of counts.values())
    for (const [status, count] of of) total.set(status, (total.get(status) ?? 0) + count);
  const sums = [...total].sort(([a], [b]) => (a < b ? -1 : 1)).map(([status, count]) => `${status}×${count}`);
  return [
    ...lines,
    `fuzz: ${requests} requests at ${counts.size} routes and operations in ${seconds.toFixed(0)} s, seed ${seed}`,
    `outcomes: ${sums.join(" ")}`,
    ...(changed.length > 0 ? [`changed without a credential: ${changed.join(", ")}`] : []),
    ...gaps.map((gap) => `GAP ${gap}`),
    ...(ended.length > 0 ? [`ended meanwhile: ${ended.join(", ")}`] : []),
    ...faults.map((fault) => `FAULT ${fault}`),
  ].join("\n");
}
