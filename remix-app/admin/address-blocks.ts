import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";
import { applyConsoleChange, type ConsoleChange } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

export const blockSchema = z.object({
  id: z.uuid(),
  /** An IPv4 address, or the /64 network of an IPv6 address. */
  address: z.string(),
  /** The kind of attempt that failed too often. */
  action: z.string(),
  /** Number of blocks within a week, including this one. */
  level: z.number(),
  blockedAt: z.string(),
  blockedUntil: z.string(),
  active: z.boolean(),
  liftedAt: z.string().nullable(),
  liftedBy: z.string().nullable(),
  liftReason: z.string().nullable(),
});
/** A network whose attempts are temporarily refused. */
export type AddressBlock = z.infer<typeof blockSchema>;

const addressSchema = z.union([z.ipv4(), z.ipv6()]);
export const blocksPerPage = 50;

/** Parses an IP address; null if the text isn't one. */
export function readAddress(term: string): string | null {
  return addressSchema.safeParse(term).data ?? null;
}

/**
 * Returns all blocks of an address in the last 30 days, or all active blocks; at most 50.
 * @throws Response 503 UNAVAILABLE
 */
export async function listAddressBlocks(
  context: AppLoadContext,
  { address }: { address: string | null },
): Promise<{ blocks: AddressBlock[]; more: boolean }> {
  const args = { of_address: address, page_size: blocksPerPage + 1 };
  const schema = z.array(blockSchema);
  const found = await callFunction(context, { name: "private.list_address_blocks", args, schema });
  return { blocks: found.slice(0, blocksPerPage), more: found.length > blocksPerPage };
}

/** Returns a block. @throws Response 404 for an unknown id, 503 UNAVAILABLE */
export async function requireAddressBlock(context: AppLoadContext, blockId: string | undefined): Promise<AddressBlock> {
  const id = z.uuid().safeParse(blockId);
  const args = { block_id: id.data };
  const schema = blockSchema.nullable();
  const block = id.success ? await callFunction(context, { name: "private.read_address_block", args, schema }) : null;
  if (block) return block;
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This block doesn’t exist." });
}

/** Lifts a block. Rate limits still apply to the network. */
export function liftAddressBlock(
  context: AppLoadContext,
  { admin, ...change }: { admin: InfrastructureAdmin; block: string; reason: string },
): Promise<ConsoleChange> {
  const refusals = {
    not_found: { status: 404, message: "This block doesn’t exist." },
    expired: { status: 409, message: "This block has already expired. Nothing was changed." },
  } as const;
  return applyConsoleChange(context, { admin, name: "lift_address_block", change, refusals });
}
