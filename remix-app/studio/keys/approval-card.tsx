import { AccountForm } from "../../ui/account-form.tsx";
import { Button } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { TextArea } from "../../ui/field.tsx";
import { ExactTime, RelativeTime } from "../../ui/moment.tsx";
import { Notice } from "../../ui/notice.tsx";
import type { ApprovalState } from "./approval.ts";

/** The maximum length of a note in characters. The database checks it too. */
export const maxNoteLength = 500;

/**
 * Shows whether a workspace may create keys, and lets members request approval. Its forms post to the approval page.
 */
export function ApprovalCard({
  workspaceId,
  approval: { approved, request },
  failed,
}: {
  workspaceId: string;
  approval: ApprovalState;
  /** The note and the error of a request that failed. */
  failed?: { note: string; error: string } | undefined;
}) {
  const action = `/workspaces/${workspaceId}/ai/keys/approval`;
  if (approved) return <Notice tone="good">This workspace is approved. You can create and rotate API keys.</Notice>;
  if (request?.state === "open") {
    const { requestedAt, requestedBy, note } = request;
    return (
      <Card
        id="approval"
        title="Waiting for approval"
        lead={
          <>
            Requested on <ExactTime at={requestedAt} /> by <bdi>{requestedBy ?? "a former member"}</bdi> (
            <RelativeTime at={requestedAt} />
            ). We’ll email you the decision. Any existing keys keep working.
          </>
        }
      >
        <div className="space-y-4">
          {note ? <p className="wrap-anywhere max-w-prose whitespace-pre-line">{note}</p> : null}
          <AccountForm action={action}>
            <input type="hidden" name="intent" value="withdraw" />
            <input type="hidden" name="requestedAt" value={requestedAt} />
            <Button variant="secondary">Withdraw request</Button>
          </AccountForm>
        </div>
      </Card>
    );
  }
  return (
    <Card
      id="approval"
      title="Request approval"
      lead="A platform administrator must approve this workspace before it can create or rotate API keys. Any existing keys keep working."
    >
      <div className="space-y-4">
        {request?.state === "declined" && request.answeredAt ? (
          <Notice tone="warn">
            The request from <ExactTime at={request.requestedAt} /> was declined{" "}
            <RelativeTime at={request.answeredAt} />. Reason:{" "}
            <span className="wrap-anywhere whitespace-pre-line">{request.declineReason}</span>
          </Notice>
        ) : null}
        <AccountForm action={action} className="max-w-120 space-y-4" noValidate>
          <input type="hidden" name="intent" value="request" />
          <TextArea
            name="note"
            label="What are the keys for?"
            hint="Optional. Platform administrators see this."
            maxLength={maxNoteLength}
            defaultValue={failed?.note}
            error={failed?.error}
          />
          <Button>Request approval</Button>
        </AccountForm>
      </div>
    </Card>
  );
}
