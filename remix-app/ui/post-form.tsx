import { Form, type FormProps, useActionData, useNavigation } from "@remix-run/react";
import { type FormEvent, useEffect, useRef, useState } from "react";

/**
 * A form that changes something, on a page that is hydrated: pressing its button again sends nothing while the first
 * sending is under way, and without a connection nothing is sent, so that what was typed stays. On pages that are not,
 * `data-once` has their own script do the first, and browsers do the second.
 */
export function PostForm({ onSubmit, children, ...form }: Omit<FormProps, "method">) {
  const idle = useNavigation().state === "idle";
  const answer = useActionData<unknown>();
  // A second click comes before React has drawn what the first one began.
  const sent = useRef(false);
  const [offline, setOffline] = useState(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: an answer ends a sending, also where it was too quick to be seen
  useEffect(() => {
    if (idle) sent.current = false;
  }, [idle, answer]);
  function sendOnce(event: FormEvent<HTMLFormElement>) {
    setOffline(!navigator.onLine);
    if (sent.current || !navigator.onLine) return event.preventDefault();
    sent.current = true;
    onSubmit?.(event);
  }
  return (
    <Form {...form} method="post" data-once="" onSubmit={sendOnce}>
      {offline ? (
        <p role="alert" className="w-full text-bad">
          This device is offline. Nothing was sent: try again once it has a connection.
        </p>
      ) : null}
      {children}
    </Form>
  );
}
