import { AccountForm } from "../../ui/account-form.tsx";
import { Button } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { DataTable } from "../../ui/data-table.tsx";
import { RelativeTime } from "../../ui/moment.tsx";
import type { AgentAccess, AgentAnswer } from "./agent-access.ts";
import { agentNames } from "./agent-schema.ts";

/** The message to show after each answer, by the value of the query parameter `agents`. */
export const agentAnswerMessages: Readonly<Record<string, string>> = {
  approve: "Approved. Their coding agents get keys once they connect again.",
  decline: "Declined. They can request access again.",
  withdraw: "Approval withdrawn. Their coding agents stopped working.",
  late: "This request was already answered. Nothing was changed.",
};

/**
 * Lists the members with an open or approved request to connect coding agents. Its forms post to
 * `/workspaces/:id/ai/keys/agents`.
 */
export function AgentAccessCard({ workspaceId, members }: { workspaceId: string; members: AgentAccess[] }) {
  return (
    <Card
      id="agents"
      title="Coding agents"
      lead={
        <>
          Members who can’t manage API keys need approval to connect coding agents. An agent’s key expires after 8 hours
          and is renewed until its connection ends. Its requests are charged like any other key’s. Approval lasts until
          you withdraw it. To limit what an agent spends, connect it with{" "}
          <code className="font-mono sm:whitespace-nowrap">gatehouse connect claude --limit 5</code>. Its limit is
          linked in the list of keys.
        </>
      }
    >
      <DataTable
        caption="Members who connect coding agents"
        rows={members}
        rowKey={({ userId }) => userId}
        empty="No requests. Members request access when they connect a coding agent with the gatehouse command."
        columns={[
          {
            label: "Member",
            cell: ({ name, tool, host }) => (
              <>
                <bdi className="font-medium">{name}</bdi>
                <span className="block font-normal text-muted text-small">
                  {agentNames[tool]} on <bdi>{host}</bdi>
                </span>
              </>
            ),
          },
          { label: "Requested", cell: ({ requestedAt }) => <RelativeTime at={requestedAt} /> },
          {
            label: "Approved",
            cell: ({ answeredAt }) => (answeredAt ? <RelativeTime at={answeredAt} /> : "Not yet"),
          },
          { label: "Decision", cell: (access) => <Answers workspaceId={workspaceId} data={access} /> },
        ]}
      />
    </Card>
  );
}

const labels: Record<AgentAnswer["answer"], string> = { approve: "Approve", decline: "Decline", withdraw: "Withdraw" };

function Answers({
  workspaceId,
  data: { userId, name, requestedAt, state },
}: {
  workspaceId: string;
  data: AgentAccess;
}) {
  const answers = state === "open" ? (["approve", "decline"] as const) : (["withdraw"] as const);
  return (
    <span className="flex flex-wrap gap-2">
      {answers.map((answer) => (
        <AccountForm key={answer} action={`/workspaces/${workspaceId}/ai/keys/agents`}>
          <input type="hidden" name="userId" value={userId} />
          <input type="hidden" name="requestedAt" value={requestedAt} />
          <input type="hidden" name="answer" value={answer} />
          <Button
            variant={answer === "approve" ? "primary" : answer === "decline" ? "secondary" : "danger"}
            aria-label={`${labels[answer]} ${name}`}
          >
            {labels[answer]}
          </Button>
        </AccountForm>
      ))}
    </span>
  );
}
