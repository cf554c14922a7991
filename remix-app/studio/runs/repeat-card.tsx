import { AccountForm } from "../../ui/account-form.tsx";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { Card } from "../../ui/card.tsx";
import { CodeBlock } from "../../ui/code-block.tsx";
import { draftOf, playgroundSearch, type RepeatableCall, repeatAsCurl } from "./run-curl.ts";

/** Repeats a call as a curl command or in the playground. Has the call's content only if it was captured and opened. */
export function RepeatCard(props: { call: RepeatableCall; workspacePath: string; gatewayUrl: string }) {
  const { call, workspacePath, gatewayUrl } = props;
  const playground = `${workspacePath}/ai/playground${playgroundSearch(call)}`;
  const draft = draftOf(call);
  return (
    <Card
      title="Repeat this call"
      lead={
        call.body
          ? "Has the content of the call. Set GATEHOUSE_API_KEY to an API key of this workspace."
          : "Has the model and endpoint of the call, but not its content. Set GATEHOUSE_API_KEY to an API key of this workspace."
      }
      action={
        draft ? (
          <AccountForm action={playground}>
            {Object.entries({ ...draft, model: call.model, step: "draft" }).map(([name, value]) => (
              <input key={name} type="hidden" name={name} value={value} />
            ))}
            <Button variant="secondary">Open in the playground</Button>
          </AccountForm>
        ) : (
          <ButtonLink href={playground}>Open in the playground</ButtonLink>
        )
      }
    >
      <CodeBlock wrap label="curl" code={repeatAsCurl(call, gatewayUrl)} />
    </Card>
  );
}
