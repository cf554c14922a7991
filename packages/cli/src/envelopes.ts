import { z } from "zod";

/** The limit of all calls of a connected agent. Amounts are null if the workspace hides costs. */
export const envelopeSchema = z.object({
  id: z.uuid(),
  state: z.enum(["open", "ended", "expired"]),
  limitUsd: z.number().nullable(),
  spentUsd: z.number().nullable(),
  reservedUsd: z.number().nullable(),
  maxCalls: z.number().nullable(),
  calls: z.number(),
  endsAt: z.iso.datetime({ offset: true }),
});
export type Envelope = z.infer<typeof envelopeSchema>;

/** Describes what is left of an envelope, its state, and the page where its owner raises or ends it. */
export function describeEnvelope(
  envelope: Envelope,
  { url, workspaceId }: { url: string; workspaceId: string },
): string {
  const { id, state, limitUsd, spentUsd, reservedUsd, maxCalls, calls, endsAt } = envelope;
  const amounts = limitUsd !== null && spentUsd !== null && reservedUsd !== null;
  const remainingUsd = amounts ? Math.max(0, limitUsd - spentUsd - reservedUsd) : null;
  const isUsedUp = remainingUsd === 0 || (maxCalls !== null && calls >= maxCalls);
  const states = {
    open: `${isUsedUp ? "used up" : "open"} until ${endsAt.slice(0, 10)}`,
    ended: "stopped",
    expired: "expired",
  };
  const facts = [
    amounts ? `${usd(remainingUsd ?? 0)} of ${usd(limitUsd)} left, ${usd(spentUsd)} spent` : "amounts are hidden",
    maxCalls === null ? `calls: ${calls}` : `calls: ${calls} of ${maxCalls}`,
    states[state],
  ];
  return `${facts.join(", ")} (${url}/workspaces/${workspaceId}/ai/envelopes/${id})`;
}

/** Formats an amount. Shows amounts below a dollar with four decimals if they are not whole cents. */
export function usd(amount: number): string {
  const hasPartsOfCents = amount < 1 && Number(amount.toFixed(2)) !== Number(amount.toFixed(4));
  return `$${amount.toFixed(hasPartsOfCents ? 4 : 2)}`;
}
