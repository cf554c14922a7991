import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useActionData, useLoaderData } from "@remix-run/react";
import { readForm } from "../../http/form.ts";
import { takeForm } from "../../session/saved-form.ts";
import { requireFreshUser } from "../../session/user.ts";
import { Choices } from "../../studio/choices.tsx";
import { readNewForm } from "../../studio/envelopes/envelope-form.ts";
import { EnvelopeList } from "../../studio/envelopes/envelope-list.tsx";
import { openEnvelope, openingFaults, readEnvelopesPage } from "../../studio/envelopes/envelopes.ts";
import { NewEnvelopeForm } from "../../studio/envelopes/new-envelope-form.tsx";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { CodeBlock } from "../../ui/code-block.tsx";
import { PageNav } from "../../ui/page-nav.tsx";
import { StudioPage } from "../../ui/studio-page.tsx";
import { requireWorkspace } from "../../workspaces/permission.ts";

export const meta = pageTitle<typeof loader>((data) => `Task limits · ${data?.workspace.name ?? "Workspace"}`);

const limitsShown = 25;

const pastStates = { all: ["ended", "expired"], ended: ["ended"], expired: ["expired"] } as const;

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { user, workspace, member } = await requireWorkspace(context, { request, params });
  const search = new URL(request.url).searchParams;
  const shown = search.get("past") ?? "all";
  const pastFilter = shown === "ended" || shown === "expired" ? shown : "all";
  const isNew = search.has("new");
  const { seesAll, keys, ...lists } = await readEnvelopesPage(context, {
    ...member,
    pastStates: pastStates[pastFilter],
    openCursor: search.get("open") ?? undefined,
    pastCursor: search.get("cursor") ?? undefined,
    limit: limitsShown,
    withKeys: isNew,
  });
  const typed = isNew ? takeForm(context, { request, userId: user.id }) : {};
  return { workspace, seesAll, keys, ...lists, pastFilter, isNew, typed };
}

/** Sets a task limit. Like raising one, this requires a recent proof of identity. */
export async function action({ request, params, context }: ActionFunctionArgs) {
  await requireFreshUser(context, request, { keepsForm: true });
  const { workspace, member } = await requireWorkspace(context, { request, params });
  const form = await readForm(request, context);
  const typed = Object.fromEntries([...form].map(([name, value]) => [name, String(value)]));
  const refuse = (errors: Readonly<Record<string, string | undefined>>) => data({ typed, errors }, { status: 400 });
  const read = readNewForm(typed);
  if ("errors" in read) return refuse(read.errors);
  const opened = await openEnvelope(context, { ...member, opening: read.opening });
  if (!("envelope" in opened)) {
    const [field, message] = openingFaults[opened.outcome];
    return refuse({ [field]: message });
  }
  throw redirect(`/workspaces/${workspace.id}/ai/envelopes/${opened.envelope.id}?done=${opened.outcome}`, 303);
}

export default function EnvelopesPage() {
  const { workspace, seesAll, keys, waiting, open, past, isNew, ...loaded } = useLoaderData<typeof loader>();
  const answer = useActionData<typeof action>();
  const path = `/workspaces/${workspace.id}/ai/envelopes`;
  const hasAny = [waiting, open, past].some(({ envelopes }) => envelopes.length > 0) || loaded.pastFilter !== "all";
  return (
    <StudioPage
      title="Task limits"
      lead="A task limit is the most that one task may spend: when it’s used up, the task’s requests are refused until you raise it. The API calls it an envelope."
      actions={
        isNew ? null : (
          <ButtonLink href={`${path}?new=1`} variant="primary">
            New task limit
          </ButtonLink>
        )
      }
    >
      {isNew ? (
        <NewEnvelopeForm
          keys={keys}
          mayUseStudio={workspace.permissions.includes("use_ai_studio")}
          typed={answer?.typed ?? loaded.typed}
          errors={answer?.errors ?? {}}
          path={path}
        />
      ) : null}
      {waiting.envelopes.length > 0 ? (
        <Card
          title="Waiting for a decision"
          lead="These have refused a request since their limit was last raised. Raise the limit, or stop the task."
        >
          <EnvelopeList envelopes={waiting.envelopes} path={path} />
          {waiting.nextCursor === null ? null : (
            <p className="mt-4 text-muted">There are more. Decide on these first.</p>
          )}
        </Card>
      ) : null}
      {hasAny ? (
        <>
          <Card id="open" title="Open">
            {open.envelopes.length > 0 ? (
              <EnvelopeList envelopes={open.envelopes} path={path} />
            ) : (
              <p className="text-muted">
                {waiting.envelopes.length > 0 ? "No other task limit is open." : "No task limit is open."}
              </p>
            )}
            <PageNav label="Pages of open task limits" param="open" nextCursor={open.nextCursor} card="open" />
          </Card>
          <Card id="past" title="Past" lead="Deleted 90 days after their end.">
            <div className="mb-4">
              <Choices
                label="Show"
                name="past"
                chosen={loaded.pastFilter}
                options={[
                  { value: "all", label: "All" },
                  { value: "ended", label: "Stopped" },
                  { value: "expired", label: "Expired" },
                ]}
              />
            </div>
            {past.envelopes.length > 0 ? (
              <EnvelopeList envelopes={past.envelopes} path={path} />
            ) : (
              <p className="text-muted">No past task limits.</p>
            )}
            <PageNav label="Pages of past task limits" nextCursor={past.nextCursor} keep={["past"]} card="past" />
          </Card>
        </>
      ) : (
        <GetStarted />
      )}
      {seesAll ? null : (
        <p className="text-muted">You see the task limits of your own API keys, agents and requests.</p>
      )}
    </StudioPage>
  );
}

function GetStarted() {
  return (
    <Card
      title="No task limits yet"
      lead="Send a header with the first request of a task, or start a coding agent with a limit. Both set a task limit, which then appears here."
    >
      <div className="max-w-prose space-y-4">
        <CodeBlock label="Request header" code="X-Platform-Envelope: usd=5; calls=200; ttl=3600" wrap />
        <CodeBlock label="Coding agent" code="gatehouse connect claude --limit 5" />
        <p className="text-muted">
          A request that doesn’t fit is refused with 402{" "}
          <code className="font-mono text-small">envelope_exhausted</code> and the address of the task limit’s page.
          Only a person can raise it there, from any browser or phone.
        </p>
      </div>
    </Card>
  );
}
