import { NoAnswer, watch } from "../journal.ts";
import type { Random } from "../random.ts";
import { type Actor, pause, type Stage } from "./actor.ts";
import { errorCodeOf } from "./ai-caller.ts";

/** A reported cost, its observations, and whether each was accepted. */
export type ReportedCost = {
  externalRunId: string;
  observations: { observedAt: string; amountUsd: string; accepted: boolean }[];
};
/** An invoice as first reported. */
export type ReportedInvoice = { reference: string; amountUsd: string; accepted: boolean };

export interface Importer extends Actor {
  costs: readonly ReportedCost[];
  invoices: readonly ReportedInvoice[];
}

type Observation = { cost: ReportedCost; at: number };
const startsAt = Date.UTC(2026, 0, 1);
const maxTries = 40;
const retryMs = 500;

/**
 * Creates a program that reports a provider's costs and invoices: out of order, repeatedly, and until it gets an
 * answer.
 */
export function createImporter(stage: Stage, { name, random }: { name: string; random: Random }): Importer {
  const { journal, world } = stage;
  const { partner, stack } = world;
  const costs: ReportedCost[] = [];
  const invoices: ReportedInvoice[] = [];
  /** Observations still to be sent, in random order. Some are sent twice. */
  let waiting: Observation[] = [];

  /** @returns the status and text of the first answer that isn't caused by an outage */
  async function send(path: string, json: string): Promise<{ status: number; text: string } | null> {
    for (let tries = 0; tries < maxTries; tries += 1) {
      try {
        const answer = await watch(
          journal,
          { actor: name, what: `POST ${path}`, target: "ai" },
          {
            call: async () => {
              const response = await fetch(`${stack.ai}/v1${path}`, {
                method: "POST",
                headers: {
                  authorization: `Bearer ${partner.key}`,
                  "content-type": "application/json",
                  "x-platform-workspace-id": partner.workspaceId,
                },
                body: json,
              });
              return { status: response.status, text: await response.text() };
            },
            seen: ({ status, text }) => ({ status, code: errorCodeOf(text) }),
          },
        );
        if (answer.status < 500) return answer;
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
      }
      // Keeps trying even after traffic has ended, since pending records must still be delivered.
      if (stage.ended.aborted) await new Promise((resolve) => setTimeout(resolve, retryMs));
      else await pause(retryMs, stage);
    }
    return null;
  }

  const jsonOf = ({ cost, at }: Observation) => {
    const { observedAt, amountUsd } = cost.observations[at] ?? { observedAt: "", amountUsd: "" };
    const run = {
      provider: "openai",
      externalRunId: cost.externalRunId,
      occurredAt: "2026-01-01T00:00:00Z",
      observedAt,
    };
    // Inserts the exact digits, without floats.
    return JSON.stringify({ ...run, amountUsd: 0 }).replace(/"amountUsd":0/, `"amountUsd":${amountUsd}`);
  };

  function refill(): void {
    const made = Array.from({ length: 6 }, () => {
      const count = 1 + random.below(4);
      const cost: ReportedCost = {
        externalRunId: `soak-${random.id()}`,
        observations: Array.from({ length: count }, (_, n) => ({
          observedAt: new Date(startsAt + (n + 1) * 60_000).toISOString(),
          amountUsd: `${random.below(9)}.${1 + random.below(99_999_999)}`,
          accepted: false,
        })),
      };
      costs.push(cost);
      return cost.observations.flatMap((_, at) => Array.from({ length: 1 + random.below(2) }, () => ({ cost, at })));
    });
    waiting = random.shuffled(made.flat());
  }

  function note({ cost, at }: Observation, outcome: unknown): void {
    const observation = cost.observations[at];
    if (observation) observation.accepted = true;
    journal.count(`costs ${String(outcome)}`);
  }

  async function sendOne(observation: Observation): Promise<void> {
    const answer = await send("/provider-costs", jsonOf(observation));
    if (!answer) return;
    if (answer.status !== 200)
      return journal.find(name, `a cost was answered ${answer.status}: ${answer.text.slice(0, 200)}`);
    note(observation, (JSON.parse(answer.text) as { outcome: string }).outcome);
  }

  async function sendBatch(observations: readonly Observation[]): Promise<void> {
    const answer = await send("/provider-costs/batch", `{"records":[${observations.map(jsonOf).join(",")}]}`);
    if (!answer) return;
    if (answer.status !== 200)
      return journal.find(name, `a batch was answered ${answer.status}: ${answer.text.slice(0, 200)}`);
    const { results } = JSON.parse(answer.text) as { results: { outcome?: string }[] };
    for (const [at, observation] of observations.entries()) {
      const outcome = results[at]?.outcome;
      if (outcome) note(observation, outcome);
      else journal.find(name, `a cost in a batch was refused: ${JSON.stringify(results[at])}`);
    }
  }

  async function sendInvoice(): Promise<void> {
    const invoice: ReportedInvoice = {
      reference: `SOAK-${random.id()}`,
      amountUsd: `${1 + random.below(9_000)}.${1 + random.below(99)}`,
      accepted: false,
    };
    invoices.push(invoice);
    const bodyOf = (amountUsd: string) =>
      `{"provider":"openai","reference":"${invoice.reference}","issuedOn":"2026-01-31","reviewedAt":"2026-02-01T09:00:00Z","amountUsd":${amountUsd}}`;
    for (let n = 0; n < 1 + random.below(3); n += 1) {
      const answer = await send("/provider-invoices", bodyOf(invoice.amountUsd));
      if (!answer) return;
      if (answer.status !== 200)
        return journal.find(name, `an invoice was answered ${answer.status}: ${answer.text.slice(0, 200)}`);
      invoice.accepted = true;
    }
    const other = await send("/provider-invoices", bodyOf(`${invoice.amountUsd}1`));
    if (other && other.status !== 409) journal.find(name, `a conflicting invoice was answered ${other.status}`);
    journal.count("invoices");
  }

  async function act(): Promise<void> {
    if (waiting.length === 0) refill();
    const deed = random.weighted({ one: 6, batch: 2, invoice: 1 });
    if (deed === "invoice") return sendInvoice();
    if (deed === "one") return sendOne(waiting.pop() as Observation);
    const taken = waiting.slice(-5);
    // A batch may contain the same record twice. Records are processed independently, so the second one to be processed
    // is stale or unchanged.
    waiting = waiting.slice(0, -5);
    return sendBatch(taken);
  }

  return { name, random, act, pauseMs: [400, 1_500], costs, invoices };
}
