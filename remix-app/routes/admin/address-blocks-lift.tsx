import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { liftAddressBlock, requireAddressBlock } from "../../admin/address-blocks.ts";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeForm } from "../../admin/change-form.tsx";
import { reasonedChangeSchema } from "../../admin/confirmation.ts";
import { restoreChange } from "../../admin/failed-change.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { formatDateTime } from "../../http/date-text.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Panel } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Lift block · Console");

const list = "/admin/address-blocks";

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  return {
    block: await requireAddressBlock(context, params.blockId),
    restored: restoreChange(context, { request, admin }),
  };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const block = await requireAddressBlock(context, params.blockId);
  return answerChange(context, {
    request,
    schema: reasonedChangeSchema,
    change: ({ reason }) => liftAddressBlock(context, { admin, block: block.id, reason }),
    to: () => `${list}?${new URLSearchParams({ q: block.address.replace(/\/64$/, ""), done: "lift" })}`,
  });
}

export default function ConsoleLiftBlockPage() {
  const { block, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>();
  const { address, active, blockedUntil } = block;
  return (
    <Page title="Lift block" lead={address}>
      <Panel>
        {active || failed ? (
          <ChangeForm
            effects={[
              `Once you confirm, sign-ins and other attempts from ${address} are allowed again.`,
              "Limits on failed attempts continue, and too many failures block the address again.",
              "If the address is blocked again, this block won’t make that one last longer.",
              `If you don’t lift the block, it expires on ${formatDateTime(blockedUntil)}.`,
            ]}
            failed={failed ?? restored}
            submit="Lift block"
            cancelTo={list}
          />
        ) : (
          <div className="space-y-4">
            <Notice>This block is no longer active.</Notice>
            <ButtonLink href={list}>Back to blocked IP addresses</ButtonLink>
          </div>
        )}
      </Panel>
    </Page>
  );
}
