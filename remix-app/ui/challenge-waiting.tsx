import { AccountForm } from "./account-form.tsx";
import { Button } from "./button.tsx";
import pollScript from "./challenge-poll.js?raw";
import { InlineScript } from "./inline-script.tsx";

export interface ChallengeWaitingProps {
  status: "created" | "approved";
  /** The URL that the script polls, with the challenge's secret. */
  pollPath: string;
  /** Where to continue once the phone has approved, as a path on our site. */
  next: string;
}

/** Shows that the page waits for a phone's answer. A script updates the page; without JavaScript, a button does. */
export function ChallengeWaiting({ status, pollPath, next }: ChallengeWaitingProps) {
  const approved = status === "approved";
  const go = (
    <AccountForm>
      <Button name="intent" value="continue" className="w-full">
        Continue
      </Button>
    </AccountForm>
  );
  return (
    <div id="waiting" data-poll={pollPath} data-next={next} className="space-y-4">
      <p role="status" className="flex items-center justify-center gap-2 text-muted">
        <span aria-hidden="true" className="size-2 animate-pulse rounded-full bg-accent motion-reduce:animate-none" />
        {approved ? "Approved on your phone." : "Waiting for your phone…"}
      </p>
      {approved ? (
        go
      ) : (
        <noscript>
          <p className="mb-3">After you approve on your phone, continue here.</p>
          {go}
        </noscript>
      )}
      <InlineScript source={pollScript} />
    </div>
  );
}
