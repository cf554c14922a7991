import { type FormProps, useActionData, useNavigation, useSubmit } from "@remix-run/react";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { AccountForm } from "./account-form.tsx";
import { fillUnanswered, forgetAnswered, forgetSent, keepSent } from "./unanswered-form.ts";

/**
 * Renders a form that changes something, on a hydrated page. While a submission is pending, another one does nothing.
 * If the browser is offline, nothing is sent. Typed values are restored if the response fails. On pages without
 * hydration, `data-once` prevents double submission.
 */
export function PostForm({ onSubmit, children, ...form }: Omit<FormProps, "method">) {
  const idle = useNavigation().state === "idle";
  const submit = useSubmit();
  const answer = useActionData<unknown>();
  // A ref, because a second click can arrive before React has rendered the first click's state.
  const sent = useRef(false);
  const [offline, setOffline] = useState(false);
  const element = useRef<HTMLFormElement>(null);
  const [unanswered, setUnanswered] = useState(false);
  useEffect(() => {
    if (element.current) setUnanswered(fillUnanswered(element.current));
    // Delays `forgetAnswered` until `failSent` has run, in case a failed response replaced this form.
    return () => void setTimeout(forgetAnswered);
  }, []);
  const answered = useRef(answer);
  // A response completes the submission, even before the page's loaders have run again.
  useEffect(() => {
    const hasAnswer = answer !== undefined && answer !== answered.current;
    answered.current = answer;
    if (!sent.current || !(idle || hasAnswer)) return;
    sent.current = false;
    forgetSent();
  }, [idle, answer]);
  function sendOnce(event: FormEvent<HTMLFormElement>) {
    setOffline(false);
    if (sent.current) return event.preventDefault();
    sent.current = true;
    setUnanswered(false);
    keepSent(event.currentTarget);
    onSubmit?.(event);
    if (navigator.onLine || event.defaultPrevented) return;
    // `onLine` is false without a network, even if the server runs on this machine. So a request tests whether the
    // server can be reached.
    event.preventDefault();
    const { submitter } = event.nativeEvent as SubmitEvent;
    const target = submitter instanceof HTMLButtonElement ? submitter : event.currentTarget;
    fetch("/healthz", { method: "HEAD", cache: "no-store" }).then(
      () => submit(target, { preventScrollReset: form.preventScrollReset, replace: form.replace }),
      () => {
        sent.current = false;
        setOffline(true);
      },
    );
  }
  return (
    <AccountForm ref={element} {...form} data-once="" onSubmit={sendOnce}>
      {offline ? (
        <p role="alert" className="w-full text-bad">
          This device is offline. Nothing was sent. Try again once it’s connected.
        </p>
      ) : null}
      {unanswered ? (
        <p role="status" className="w-full text-warn">
          This may not have been saved. Here’s what you sent.
        </p>
      ) : null}
      {children}
    </AccountForm>
  );
}
