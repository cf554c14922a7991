/** The service that a call goes to. */
export type Target = "web" | "ai" | "notes";

/** One HTTP call, as recorded by its client. */
export type Answered = {
  actor: string;
  what: string;
  target: Target;
  /** Milliseconds since 1970. */
  startedAt: number;
  endedAt: number;
  /** Null if no answer arrived or the answer was incomplete. */
  status: number | null;
  /** The error's code, if the answer or the network gave one. */
  code: string | null;
  requestId: string | null;
  /** Whether the caller itself disconnected. */
  left: boolean;
  /** Whether the error was requested on purpose, for example from a model that always fails. */
  asked: boolean;
};

/** An outcome that clients should never see, regardless of faults. */
export type Finding = { at: number; actor: string; text: string };

/** The calls and findings of all clients, in the order of the answers. */
export interface Journal {
  answers: Answered[];
  findings: Finding[];
  /** How often each action was done, for the progress line. */
  counts: Map<string, number>;
  add(answered: Answered): void;
  find(actor: string, text: string): void;
  count(what: string): void;
}

/** @param onFinding receives each finding as it is recorded */
export function createJournal(onFinding: (finding: Finding) => void = () => {}): Journal {
  const counts = new Map<string, number>();
  const answers: Answered[] = [];
  const findings: Finding[] = [];
  const count = (what: string) => void counts.set(what, (counts.get(what) ?? 0) + 1);
  return {
    answers,
    findings,
    counts,
    add(answered) {
      answers.push(answered);
      count("calls");
      if (answered.status === null && !answered.left) count("unanswered");
      if ((answered.status ?? 0) >= 500 && !answered.asked) count("5xx");
    },
    find(actor, text) {
      const finding = { at: Date.now(), actor, text };
      findings.push(finding);
      onFinding(finding);
      count("findings");
    },
    count,
  };
}

const longestCallMs = 90_000;

/** Thrown if no answer arrived because the network failed or the call timed out. */
export class NoAnswer extends Error {
  readonly code: string;
  constructor(code: string, options?: { cause: unknown }) {
    super(`no answer: ${code}`, options);
    this.code = code;
  }
}

export type Described = Pick<Answered, "actor" | "what" | "target"> & { asked?: boolean };
type Seen = { status: number; code?: string | null; requestId?: string | null };

/**
 * Makes a call and records its outcome.
 * @param options.left returns whether the caller itself disconnected
 * @throws NoAnswer
 */
export async function watch<Result>(
  journal: Journal,
  described: Described,
  {
    call,
    seen,
    left = () => false,
  }: { call: () => Promise<Result>; seen: (result: Result) => Seen; left?: () => boolean },
): Promise<Result> {
  const startedAt = Date.now();
  const note = (what: Seen | { status: null; code: string }) =>
    journal.add({
      requestId: null,
      ...described,
      asked: described.asked ?? false,
      startedAt,
      endedAt: Date.now(),
      left: left(),
      ...what,
      code: what.code ?? null,
    });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new NoAnswer("no answer in 90 s")), longestCallMs);
  });
  try {
    const result = await Promise.race([call(), late]);
    note(seen(result));
    return result;
  } catch (error) {
    const code = codeOf(error);
    note({ status: null, code });
    throw error instanceof NoAnswer ? error : new NoAnswer(code, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the innermost error code of a network error. */
function codeOf(error: unknown): string {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at instanceof NoAnswer) return at.code;
    if ("code" in at && typeof at.code === "string") return at.code;
  }
  return error instanceof Error ? error.name : "unknown";
}
