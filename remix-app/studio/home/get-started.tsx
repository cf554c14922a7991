import { CircleCheck } from "lucide-react";
import type { ReactNode } from "react";
import { ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { CodeBlock } from "../../ui/code-block.tsx";
import { GatewayCard } from "./gateway-card.tsx";
import type { KeySetup } from "./workspace-home.ts";

interface Step {
  title: string;
  done: boolean;
  text: ReactNode;
  /** The link to show while this is the next step. */
  action?: { to: string; label: string };
}

const approvals: Record<KeySetup["approval"], { text: string; action?: string }> = {
  approved: { text: "This workspace can create API keys." },
  requested: { text: "Requested. A platform administrator will answer by email.", action: "View request" },
  declined: { text: "Your request was declined. Read why, then request again.", action: "View request" },
  none: { text: "A platform administrator must approve this workspace once.", action: "Request approval" },
};

/**
 * Shows the steps to the first request, with the completed ones checked off, and a link to the Playground.
 * @param props.setup null for members who cannot manage keys, which two of the steps require
 */
export function GetStarted({
  base,
  email,
  setup,
  everUsed,
  gatewayUrl,
}: {
  base: string;
  email: string;
  setup: KeySetup | null;
  everUsed: boolean;
  gatewayUrl: string;
}) {
  const steps: Step[] = [
    { title: "Create your account", done: true, text: <>You’re signed in{email ? ` as ${email}` : ""}.</> },
    ...(setup ? keySteps(base, setup) : []),
    {
      title: "Send your first request",
      done: everUsed,
      text: setup
        ? "Configure any OpenAI client with the base URL and your API key."
        : "Try a model in the Playground. To call the gateway from your code, ask a member who manages API keys to create one for you.",
    },
  ];
  const next = steps.find(({ done }) => !done);
  const count = steps.filter(({ done }) => done).length;
  return (
    <div className="grid grid-cols-1 items-start gap-6 lg:grid-cols-[minmax(0,1fr)_17rem]">
      <Card title="Get started" lead={`${count} of ${steps.length} steps done`}>
        <ol className="space-y-5">
          {steps.map((step, index) => (
            <li key={step.title} aria-current={step === next ? "step" : undefined} className="flex gap-3">
              <StepMark done={step.done} number={index + 1} />
              <div className="min-w-0 flex-1 space-y-2">
                <p className={step.done ? "text-muted" : "font-medium"}>
                  {step.title}
                  <span className="sr-only">{step.done ? " (done)" : " (to do)"}</span>
                </p>
                {step.done ? null : <p className="text-muted">{step.text}</p>}
                {step === next && step.action ? (
                  <ButtonLink href={step.action.to} variant="primary">
                    {step.action.label}
                  </ButtonLink>
                ) : null}
              </div>
            </li>
          ))}
        </ol>
        {setup?.hasKey && !everUsed ? (
          <div className="mt-5">
            <CodeBlock
              label="List models with curl"
              code={`curl ${gatewayUrl}/models \\\n  -H "Authorization: Bearer $GATEHOUSE_API_KEY"`}
            />
          </div>
        ) : null}
      </Card>
      <div className="space-y-6">
        <Card
          title="Try a model first"
          lead="Use the Playground to send requests from your browser, without an API key."
        >
          <ButtonLink href={`${base}/ai/playground`} variant={next?.action ? "secondary" : "primary"}>
            Open Playground
          </ButtonLink>
        </Card>
        <GatewayCard url={gatewayUrl} />
      </div>
    </div>
  );
}

function keySteps(base: string, { approval, hasKey }: KeySetup): Step[] {
  const { text, action } = approvals[approval];
  const keys = `${base}/ai/keys`;
  return [
    {
      title: "Get approval for API keys",
      // Having a key does not imply approval: keys remain after an approval is withdrawn.
      done: approval === "approved",
      text,
      ...(action && { action: { to: `${keys}/approval`, label: action } }),
    },
    {
      title: "Create an API key",
      done: hasKey,
      text: "Create one for each app, so you can revoke it without affecting the others.",
      action: { to: `${keys}/new`, label: "Create API key" },
    },
  ];
}

function StepMark({ done, number }: { done: boolean; number: number }) {
  if (done) return <CircleCheck aria-hidden="true" className="mt-0.5 size-5 shrink-0 text-good" />;
  return (
    <span
      aria-hidden="true"
      className="mt-0.5 grid size-5 shrink-0 place-items-center rounded-full border border-edge text-muted text-small tabular-nums"
    >
      {number}
    </span>
  );
}
