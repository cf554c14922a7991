import type { Credential } from "./credentials.ts";
import type { Target } from "./targets.ts";

/** A request that was sent, with or without a response. */
export interface Asked {
  target: Pick<Target, "name">;
  credential: Pick<Credential, "name">;
  /** Undefined if the request got no response. */
  status: number | undefined;
  durationMs: number;
}

export interface Coverage {
  note(asked: Asked): void;
  /** How many pairs of a target and a credential were requested, and how many there are. */
  pairs(): { asked: number; all: number };
  /**
   * Whether the credential ever got a 2xx. Counts only targets that are meant for the credential and that refuse
   * invalid credentials.
   */
  served(credential: Pick<Credential, "name">): boolean;
  /** Pairs of a target and a credential that were never requested, and valid credentials that never succeeded. */
  gaps(): string[];
  /** The slowest response of each target, slowest first. */
  slowest(count: number): { name: string; durationMs: number }[];
}

/**
 * Tracks which targets were requested with which credentials, whether each valid credential ever succeeded, and the
 * slowest responses. A success counts only at a target that refuses invalid credentials, so each target must be
 * requested with the invalid credentials first.
 * @param isFor whether a target is meant for a credential
 */
export function createCoverage<T extends Pick<Target, "name">, C extends Pick<Credential, "name" | "good">>(
  targets: readonly T[],
  { credentials, isFor }: { credentials: readonly C[]; isFor: (target: T, credential: C) => boolean },
): Coverage {
  const asked = new Set<string>();
  const open = new Set<string>();
  const served = new Set<string>();
  const longest = new Map<string, { name: string; durationMs: number }>();
  const pair = (target: Asked["target"], credential: Asked["credential"]) => `${target.name} by ${credential.name}`;
  const all = targets.flatMap((target) => credentials.map((credential) => pair(target, credential)));
  const strangers = new Set(credentials.filter(({ good }) => !good).map(({ name }) => name));
  const fitting = new Set(
    targets.flatMap((target) =>
      credentials.filter((credential) => isFor(target, credential)).map((credential) => pair(target, credential)),
    ),
  );
  return {
    note({ target, credential, status, durationMs }) {
      const name = pair(target, credential);
      asked.add(name);
      if (status !== undefined && status >= 200 && status < 300) {
        if (strangers.has(credential.name)) open.add(target.name);
        else if (fitting.has(name) && !open.has(target.name)) served.add(credential.name);
      }
      if (durationMs > (longest.get(target.name)?.durationMs ?? -1)) longest.set(target.name, { name, durationMs });
    },
    served: ({ name }) => served.has(name),
    pairs: () => ({ asked: asked.size, all: all.length }),
    gaps: () => [
      ...all.filter((name) => !asked.has(name)).map((name) => `${name} was not asked in the time`),
      ...credentials
        .filter(({ good, name }) => good && !served.has(name))
        .map(({ name }) => `${name}, a good credential, was answered by no 2xx where it is called for`),
    ],
    slowest: (count) => [...longest.values()].sort((a, b) => b.durationMs - a.durationMs).slice(0, count),
  };
}
