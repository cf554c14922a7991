import com.fasterxml.jackson.annotation.JsonClassDescription;
import com.fasterxml.jackson.annotation.JsonTypeName;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.http.StreamResponse;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.helpers.ResponseAccumulator;
import com.openai.models.chat.completions.ChatCompletion;
import com.openai.models.chat.completions.ChatCompletionChunk;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionMessage;
import com.openai.models.chat.completions.ChatCompletionStreamOptions;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import com.openai.models.chat.completions.StructuredChatCompletionCreateParams;
import com.openai.models.responses.Response;
import com.openai.models.responses.ResponseCreateParams;
import com.openai.models.responses.ResponseInputItem;
import com.openai.models.responses.ResponseStreamEvent;
import com.openai.models.responses.StructuredResponseCreateParams;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** openai-java, each check reported as a line of JSON on standard output. */
public final class OpenAIJava {
    private static final String MODEL = System.getenv("CLIENT_MODEL");
    /** The demo model calls a tool when the prompt says so, and then answers with what the tool returned. */
    private static final String SUM_QUESTION = "What is 17 + 25? Please call add with {\"a\":17,\"b\":25}";

    private static final OpenAIClient client = OpenAIOkHttpClient.fromEnv();

    @JsonTypeName("add")
    @JsonClassDescription("Add two numbers.")
    static class Add {
        public double a;
        public double b;

        public double execute() {
            return a + b;
        }
    }

    static class Person {
        public String name;
        public Integer age;
    }

    interface Check {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        check("plain", "chat", OpenAIJava::chat);
        check("stream", "chat: stream", () -> chatStream(chatParams("Hello from openai-java").build()));
        check("stream", "chat: stream with usage", OpenAIJava::chatStreamWithUsage);
        check("tools", "chat: tool loop", () -> chatToolLoop(false));
        check("tools", "chat: tool loop, streamed", () -> chatToolLoop(true));
        check("tools", "chat: conversation", () -> chatConversation(false));
        check("tools", "chat: conversation, streamed", () -> chatConversation(true));
        check("plain", "responses", OpenAIJava::responses);
        check("stream", "responses: stream", OpenAIJava::responsesStream);
        check("tools", "responses: tool loop", OpenAIJava::responsesToolLoop);
        check("structured", "chat: structured output", OpenAIJava::chatStructured);
        check("structured", "responses: structured output", OpenAIJava::responsesStructured);
        client.close();
    }

    private static ChatCompletionCreateParams.Builder chatParams(String prompt) {
        return ChatCompletionCreateParams.builder().model(MODEL).addDeveloperMessage("Be brief.").addUserMessage(prompt);
    }

    private static void chat() {
        ChatCompletion completion = client.chat().completions().create(chatParams("Hello from openai-java").build());
        expect("Hello from openai-java", text(completion));
    }

    /** Reads a stream in both documented ways: the delta of each chunk, and the accumulator. */
    private static ChatCompletion chatStream(ChatCompletionCreateParams params) {
        ChatCompletionAccumulator accumulator = ChatCompletionAccumulator.create();
        StringBuilder text = new StringBuilder();
        try (StreamResponse<ChatCompletionChunk> stream = client.chat().completions().createStreaming(params)) {
            stream.stream()
                    .peek(accumulator::accumulate)
                    .flatMap(chunk -> chunk.choices().stream())
                    .flatMap(choice -> choice.delta().content().stream())
                    .forEach(text::append);
        }
        ChatCompletion completion = accumulator.chatCompletion();
        expect(text.toString(), text(completion));
        return completion;
    }

    private static void chatStreamWithUsage() {
        ChatCompletion completion = chatStream(chatParams("Hello from openai-java")
                .streamOptions(ChatCompletionStreamOptions.builder().includeUsage(true).build())
                .build());
        expect("Hello from openai-java", text(completion));
        if (completion.usage().orElseThrow().totalTokens() <= 0) throw new AssertionError("no tokens were counted");
    }

    /** @return parameters whose messages are the conversation so far */
    private static ChatCompletionCreateParams.Builder chatToolLoop(boolean streamed) {
        ChatCompletionCreateParams.Builder params = chatParams(SUM_QUESTION).addTool(Add.class);
        ChatCompletion first = ask(params, streamed);
        first.choices().stream()
                .map(ChatCompletion.Choice::message)
                .peek(params::addMessage)
                .flatMap(message -> message.toolCalls().stream().flatMap(Collection::stream))
                .forEach(call -> params.addMessage(ChatCompletionToolMessageParam.builder()
                        .toolCallId(call.asFunction().id())
                        .contentAsJson(call.asFunction().function().arguments(Add.class).execute())
                        .build()));
        ChatCompletion second = ask(params, streamed);
        expect("42", text(second));
        second.choices().stream().map(ChatCompletion.Choice::message).forEach(params::addMessage);
        return params;
    }

    private static void chatConversation(boolean streamed) {
        expect("And again", text(ask(chatToolLoop(streamed).addUserMessage("And again"), streamed)));
    }

    private static ChatCompletion ask(ChatCompletionCreateParams.Builder params, boolean streamed) {
        return streamed ? chatStream(params.build()) : client.chat().completions().create(params.build());
    }

    private static void responses() {
        Response response = client.responses()
                .create(ResponseCreateParams.builder().model(MODEL).input("Hello from openai-java").build());
        expect("Hello from openai-java", text(response));
    }

    private static void responsesStream() {
        ResponseAccumulator accumulator = ResponseAccumulator.create();
        ResponseCreateParams params =
                ResponseCreateParams.builder().model(MODEL).input("Hello from openai-java").build();
        StringBuilder text = new StringBuilder();
        try (StreamResponse<ResponseStreamEvent> stream = client.responses().createStreaming(params)) {
            stream.stream()
                    .peek(accumulator::accumulate)
                    .flatMap(event -> event.outputTextDelta().stream())
                    .forEach(event -> text.append(event.delta()));
        }
        expect("Hello from openai-java", text.toString());
        expect(text.toString(), text(accumulator.response()));
    }

    private static void responsesToolLoop() {
        List<ResponseInputItem> inputs = new ArrayList<>();
        inputs.add(ResponseInputItem.ofMessage(ResponseInputItem.Message.builder()
                .addInputTextContent(SUM_QUESTION)
                .role(ResponseInputItem.Message.Role.USER)
                .build()));
        ResponseCreateParams.Builder params = ResponseCreateParams.builder()
                .model(MODEL)
                .addTool(Add.class)
                .input(ResponseCreateParams.Input.ofResponse(inputs));
        client.responses().create(params.build()).output().stream()
                .flatMap(item -> item.functionCall().stream())
                .forEach(call -> {
                    inputs.add(ResponseInputItem.ofFunctionCall(call));
                    inputs.add(ResponseInputItem.ofFunctionCallOutput(ResponseInputItem.FunctionCallOutput.builder()
                            .callId(call.callId())
                            .outputAsJson(call.arguments(Add.class).execute())
                            .build()));
                });
        params.input(ResponseCreateParams.Input.ofResponse(inputs));
        expect("42", text(client.responses().create(params.build())));
    }

    private static void chatStructured() {
        StructuredChatCompletionCreateParams<Person> params = ChatCompletionCreateParams.builder()
                .model(MODEL)
                .addUserMessage("Jason is 25 years old.")
                .responseFormat(Person.class)
                .build();
        Person person = client.chat().completions().create(params).choices().stream()
                .flatMap(choice -> choice.message().content().stream())
                .findFirst()
                .orElseThrow();
        expectPerson(person);
    }

    private static void responsesStructured() {
        StructuredResponseCreateParams<Person> params = ResponseCreateParams.builder()
                .model(MODEL)
                .input("Jason is 25 years old.")
                .text(Person.class)
                .build();
        Person person = client.responses().create(params).output().stream()
                .flatMap(item -> item.message().stream())
                .flatMap(message -> message.content().stream())
                .flatMap(content -> content.outputText().stream())
                .findFirst()
                .orElseThrow();
        expectPerson(person);
    }

    private static void expectPerson(Person person) {
        if (person.name == null || person.age == null) throw new AssertionError("a member of the answer is missing");
    }

    private static String text(ChatCompletion completion) {
        return completion.choices().stream()
                .map(ChatCompletion.Choice::message)
                .map(ChatCompletionMessage::content)
                .flatMap(content -> content.stream())
                .collect(Collectors.joining());
    }

    private static String text(Response response) {
        return response.output().stream()
                .flatMap(item -> item.message().stream())
                .flatMap(message -> message.content().stream())
                .flatMap(content -> content.outputText().stream())
                .map(output -> output.text())
                .collect(Collectors.joining());
    }

    private static void expect(String part, String whole) {
        if (!whole.contains(part)) throw new AssertionError("expected “" + part + "” in “" + whole + "”");
    }

    /** Runs one check. A failure does not stop the next one. */
    private static void check(String feature, String name, Check check) throws Exception {
        Map<String, Object> report;
        try {
            check.run();
            report = Map.of("check", name, "feature", feature, "ok", true);
        } catch (Exception | AssertionError error) {
            StringWriter trace = new StringWriter();
            error.printStackTrace(new PrintWriter(trace));
            report = Map.of("check", name, "feature", feature, "ok", false, "error", trace.toString());
        }
        System.out.println(new ObjectMapper().writeValueAsString(report));
    }
}
