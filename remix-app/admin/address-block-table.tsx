import { ButtonLink } from "../ui/button.tsx";
import { DataTable } from "../ui/data-table.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import type { AddressBlock } from "./address-blocks.ts";
import { attemptLabel } from "./labels.ts";

/** Lists address blocks. Each active block has a link to lift it. */
export function AddressBlockTable({ blocks, empty }: { blocks: readonly AddressBlock[]; empty: string }) {
  return (
    <DataTable
      caption="Blocked IP addresses"
      rows={blocks}
      rowKey={({ id }) => id}
      empty={empty}
      columns={[
        {
          label: "IP address",
          cell: ({ address, action, level }) => (
            <>
              <span className="break-all font-mono">{address}</span>
              <span className="block text-muted text-small">
                Too many failed {attemptLabel(action)} · block number {level} in a week
              </span>
            </>
          ),
        },
        {
          label: "Blocked",
          small: "hidden",
          cell: ({ blockedAt }) => <RelativeTime at={blockedAt} />,
        },
        { label: "State", cell: (block) => <State block={block} /> },
        {
          label: "Lift",
          small: "aside",
          cell: ({ id, address, active }) =>
            active ? (
              <ButtonLink
                href={`/admin/address-blocks/${id}/lift`}
                aria-label={`Lift the block of ${address}`}
                variant="secondary"
              >
                Lift
              </ButtonLink>
            ) : null,
        },
      ]}
    />
  );
}

function State({ block: { active, blockedUntil, liftedAt, liftedBy, liftReason } }: { block: AddressBlock }) {
  if (liftedAt) {
    return (
      <span className="text-muted">
        Lifted <RelativeTime at={liftedAt} />
        {liftedBy ? ` by ${liftedBy}` : ""}: {liftReason}
      </span>
    );
  }
  return active ? (
    <span className="text-bad">
      Expires <RelativeTime at={blockedUntil} />
    </span>
  ) : (
    <span className="text-muted">
      Expired <RelativeTime at={blockedUntil} />
    </span>
  );
}
