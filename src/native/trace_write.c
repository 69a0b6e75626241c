/* SPDX-License-Identifier: Apache-2.0
 * Writes a session's spans to a file for chrome://tracing or Perfetto. The format is Google's
 * "Trace Event Format": complete events (ph X) in microseconds. */
#include <inttypes.h>
#include <math.h>

#include "engine/session.h"
#include "host/file.h"

/* Viewers need the id of a process. Any number will do, because all threads of a session are in one
 * process. */
enum { PROCESS = 1 };

/* Writes a field whose unit is the microsecond. It writes whole numbers only, since printf would
 * put the host program's decimal comma into a fraction. */
static void write_time(FILE *to, const char *name, double seconds) {
    const long long nanoseconds = llround(1e9 * seconds);
    fprintf(to, ",\"%s\":%lld.%03lld", name, nanoseconds / 1000, nanoseconds % 1000);
}

static void write_span(FILE *to, const struct span *span, double origin, uint32_t thread) {
    fprintf(to, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%" PRIu32 ",\"name\":\"%s\"", PROCESS, thread,
            wisp_stage_name(span->stage));
    write_time(to, "ts", span->start - origin);
    write_time(to, "dur", span->end - span->start);
    if (span->layer != NO_LAYER)
        fprintf(to, ",\"args\":{\"layer\":%d}", span->layer);
    fputs("}", to);
}

static void write_thread(FILE *to, const struct trace *trace, double origin, uint32_t thread) {
    fprintf(to,
            ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%" PRIu32
            ",\"name\":\"thread_name\",\"args\":{\"name\":\"worker %" PRIu32 "\"}}",
            PROCESS, thread, thread);
    for (size_t i = 0; i < trace->n; i++)
        write_span(to, &trace->spans[i], origin, thread);
}

/* Writes what wisp_cold_stats says of neurons, if the model was opened without the cold ones. */
static void write_cold(FILE *to, const wisp_model *model) {
    wisp_cold_stats s;
    if (!wisp_model_get_cold_stats(model, &s))
        return;
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"hotBytes", s.hot_bytes},
                  {"warmBytes", s.warm_bytes},
                  {"mostWarmBytes", s.most_warm_bytes},
                  {"coldBytes", s.cold_bytes},
                  {"hits", s.hits},
                  {"misses", s.misses},
                  {"evictions", s.evictions},
                  {"reads", s.ranges},
                  {"readBytes", s.range_bytes},
                  {"prefetched", s.prefetched},
                  {"prefetchedUsed", s.prefetched_used},
                  {"prefetchedWasted", s.prefetched_wasted}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        fprintf(to, "%s\"%s\":%" PRIu64, i ? "," : ",\"cold\":{", counts[i].name, counts[i].value);
    fputc('}', to);
}

/* Writes all events. Time 0 is the moment at which the model began to open. */
static void write_events(FILE *to, const wisp_session *session) {
    const wisp_model *model = session->model;
    uint64_t dropped = 0;
    fprintf(to, "{\"traceEvents\":[\n{\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"name\":\"load\",\"ts\":0",
            PROCESS);
    write_time(to, "dur", model->load_seconds);
    fputs("}", to);
    for (uint32_t i = 0; i < session->n_workers; i++) {
        write_thread(to, &session->workers[i].trace, model->load_start, i);
        dropped += session->workers[i].trace.dropped;
    }
    fprintf(to, "\n],\"displayTimeUnit\":\"ms\",\"otherData\":{\"droppedSpans\":%" PRIu64, dropped);
    write_cold(to, model);
    fputs("}}\n", to);
}

wisp_status wisp_session_write_trace(const wisp_session *session, const char *path,
                                     wisp_error *error) {
    struct file_writer writer;
    TRY(require(session, "session", error));
    TRY(require(path, "path", error));
    if (!session->workers[0].trace.keeps_spans)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "trace",
                    "the session was opened without options.trace");
    TRY(file_writer_open(&writer, path, error));
    write_events(writer.stream, session);
    return file_writer_commit(&writer, error);
}
