import type { ActionFunctionArgs, LoaderFunctionArgs } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { answerChange } from "../../admin/answer-change.ts";
import { ChangeField } from "../../admin/change-fields.tsx";
import { ChangeForm } from "../../admin/change-form.tsx";
import { restoreChange } from "../../admin/failed-change.ts";
import { describeRoom } from "../../admin/provider-limit-table.tsx";
import { providerLimitChangeSchema, requireProviderLimit, saveProviderLimit } from "../../admin/provider-limits.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card, Panel } from "../../ui/card.tsx";
import { FactList } from "../../ui/facts.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle<typeof loader>((data) => `Limits of ${data?.limit.provider ?? "a provider"} · Console`);

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const limit = await requireProviderLimit(context, params.providerId ?? "");
  return { limit, restored: restoreChange(context, { request, admin }) };
}

export async function action({ request, params, context }: ActionFunctionArgs) {
  const admin = await requireInfrastructureAdmin(context, request);
  const provider = params.providerId ?? "";
  return answerChange(context, {
    request,
    schema: providerLimitChangeSchema,
    change: (change) => saveProviderLimit(context, { ...change, provider, admin }),
    to: () => "/admin/providers?done#limits",
  });
}

const effects = [
  "From the next request, all workspaces together stay within these limits. Requests in progress don’t count.",
  "A request without room uses the model’s next route. Without another route it waits up to five seconds, and is then refused with HTTP 429.",
  "Set the limits a little below the provider’s own if other programs use the same credential.",
];

export default function ConsoleProviderLimitPage() {
  const { limit, restored } = useLoaderData<typeof loader>();
  const failed = useActionData<typeof action>() ?? restored;
  const { provider, requestsPerMinute, tokensPerMinute, requests, tokens, version } = limit;
  return (
    <Page
      title={`Limits of ${provider}`}
      lead="How many requests and tokens a minute this provider gets from the gateway."
    >
      <Card title="Now" lead="A tenth of each limit can be used at once. The rest follows evenly over the minute.">
        <FactList
          facts={[
            ["Requests available", describeRoom(requests)],
            ["Tokens available", describeRoom(tokens)],
          ]}
        />
      </Card>
      <Panel>
        <ChangeForm
          effects={effects}
          failed={failed}
          submit="Save limits"
          cancelTo="/admin/providers"
          hidden={{ seen: version }}
        >
          <ChangeField
            name="requestsPerMinute"
            value={requestsPerMinute}
            failed={failed}
            label="Requests per minute"
            hint="Leave empty for no limit."
            inputMode="numeric"
          />
          <ChangeField
            name="tokensPerMinute"
            value={tokensPerMinute}
            failed={failed}
            label="Tokens per minute"
            hint="Counts the maximum input and the output limit of each request, not the tokens it uses. Leave empty for no limit."
            inputMode="numeric"
          />
        </ChangeForm>
      </Panel>
    </Page>
  );
}
