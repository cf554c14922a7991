import type { Credential } from "./credentials.ts";
import type { Target } from "./targets.ts";

/** Who asks, as far as an answer may differ: nobody, somebody whom nobody is, somebody who is there. */
type Class = "nobody" | "a false credential" | "a good credential";

export interface Coverage {
  /** @param status undefined where no answer came */
  note(asked: { target: Pick<Target, "name">; credential: Credential; status: number | undefined }): void;
  /** What was not asked, and by whom; and good credentials that never got anything. */
  gaps(): string[];
}

/** Follows which targets are asked by whom, and whether each good credential is one. */
export function createCoverage(targets: readonly Pick<Target, "name">[], credentials: readonly Credential[]): Coverage {
  const asked = new Set<string>();
  const served = new Set<string>();
  const pair = (target: string, by: Class) => `${target} by ${by}`;
  return {
    note({ target, credential, status }) {
      asked.add(pair(target.name, classOf(credential)));
      if (status !== undefined && status >= 200 && status < 300) served.add(credential.name);
    },
    gaps() {
      const classes = new Set(credentials.map(classOf));
      const wanted = targets.flatMap(({ name }) => [...classes].map((by) => pair(name, by)));
      return [
        ...wanted.filter((each) => !asked.has(each)).map((each) => `${each} was not asked in the time`),
        ...credentials
          .filter(({ good, name }) => good && !served.has(name))
          .map(({ name }) => `${name}, a good credential, was answered by no 2xx`),
      ];
    },
  };
}

function classOf({ name, good }: Credential): Class {
  if (good) return "a good credential";
  return name === "none" ? "nobody" : "a false credential";
}
