"""Adapters, each with the real package. `make test-adapters` installs them; elsewhere what is absent is skipped."""

import pickle
import sys

import numpy as np
import pytest

from wisp_engine import Embedder

TEXTS = ["cats are nice", "the bank", "a house by the sea", "interest is due"]


@pytest.fixture(scope="module")
def expected():
    return Embedder().encode(TEXTS)


def need(name):
    return pytest.importorskip(name, reason=f"skipped: {name} is not installed")


def test_langchain(expected):
    core = need("langchain_core.vectorstores")
    from wisp_engine.langchain import WispEmbeddings

    store = core.InMemoryVectorStore(WispEmbeddings())
    store.add_texts(TEXTS)
    assert store.similarity_search("pets", k=1)[0].page_content == TEXTS[0]
    assert np.array_equal(np.float32(WispEmbeddings().embed_documents(TEXTS)), expected)


def test_llama_index(expected):
    need("llama_index.core")
    from wisp_engine.llama_index import WispEmbedding

    embedding = WispEmbedding()
    assert np.array_equal(np.float32(embedding.get_text_embedding_batch(TEXTS)), expected)
    assert np.array_equal(np.float32(embedding.get_query_embedding(TEXTS[1])), expected[1])


def test_haystack(expected):
    haystack = need("haystack")
    from wisp_engine.haystack import WispDocumentEmbedder, WispTextEmbedder

    pipeline = haystack.Pipeline()
    pipeline.add_component("embed", WispDocumentEmbedder())
    pipeline = haystack.Pipeline.loads(pipeline.dumps(), allowed_modules=["wisp_engine.haystack"])
    documents = [haystack.Document(content=text) for text in [*TEXTS, ""]]
    made = pipeline.run({"embed": {"documents": documents}})["embed"]["documents"]
    assert np.array_equal(np.float32([document.embedding for document in made[:4]]), expected)
    assert made[4].embedding is None
    assert np.array_equal(np.float32(WispTextEmbedder().run(TEXTS[0])["embedding"]), expected[0])


def test_chroma(tmp_path):
    chromadb = need("chromadb")
    from wisp_engine.chroma import WispEmbeddingFunction

    client = chromadb.PersistentClient(str(tmp_path))
    collection = client.create_collection("texts", embedding_function=WispEmbeddingFunction())
    collection.add(ids=list("abcd"), documents=TEXTS)
    assert collection.query(query_texts=["pets"], n_results=1)["ids"] == [["a"]]
    again = chromadb.PersistentClient(str(tmp_path)).get_collection("texts", embedding_function=WispEmbeddingFunction())
    assert again.query(query_texts=["money"], n_results=1)["ids"][0][0] in "bd"


def test_mteb():
    """On the tasks with local texts that come with the package."""
    mteb = need("mteb")
    from mteb.mocks.mock_tasks import MockRetrievalTask, MockSTSTask

    from wisp_engine.mteb import WispEncoder

    results = mteb.evaluate(WispEncoder(), [MockRetrievalTask(), MockSTSTask()], cache=None)
    scores = {result.task_name: result.get_score() for result in results.task_results}
    assert set(scores) == {"MockRetrievalTask", "MockSTSTask"}
    assert scores["MockRetrievalTask"] > 0.6


def test_sklearn(expected):
    need("sklearn")
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    from wisp_engine.sklearn import WispTransformer

    pipeline = make_pipeline(WispTransformer(threads=1), LogisticRegression())
    fitted = pickle.loads(pickle.dumps(clone(pipeline).fit(TEXTS * 3, [0, 1, 0, 1] * 3)))
    assert fitted.predict(["dogs", "my loan"]).tolist() == [0, 1]
    assert np.array_equal(WispTransformer().transform(TEXTS), expected)


def test_pandas_and_polars(expected):
    pandas, polars = need("pandas"), need("polars")
    embedder = Embedder()
    frame = pandas.DataFrame({"text": TEXTS})
    frame["vector"] = list(embedder.encode(frame["text"]))
    assert np.array_equal(np.stack(frame["vector"]), expected)
    table = polars.DataFrame({"text": TEXTS}).with_columns(
        polars.col("text").map_batches(lambda column: polars.Series(embedder.encode(column)),
                                       return_dtype=polars.Array(polars.Float32, 384)).alias("vector"))
    assert np.array_equal(table["vector"].to_numpy(), expected)


def test_arrow_nulls(expected):
    pa = need("pyarrow")
    from wisp_engine.arrow import ColumnEmbedder

    made = pickle.loads(pickle.dumps(ColumnEmbedder()))(pa.array([TEXTS[0], None, TEXTS[1]]))
    assert made.null_count == 1 and made[1].as_py() is None
    assert np.array_equal(np.float32([made[0].as_py(), made[2].as_py()]), expected[:2])


def test_duckdb(expected):
    duckdb = need("duckdb")
    need("pyarrow")
    from wisp_engine.duckdb import register

    connection = duckdb.connect()
    register(connection)
    rows = connection.execute("SELECT embed(t) FROM (SELECT unnest(?) AS t)", [TEXTS]).fetchall()
    assert np.array_equal(np.float32([row[0] for row in rows]), expected)
    assert connection.execute("SELECT embed(NULL)").fetchall() == [(None,)]
    best = connection.execute("SELECT t FROM (SELECT unnest(?) AS t) ORDER BY "
                              "array_inner_product(embed(t), embed('pets')) DESC LIMIT 1", [TEXTS]).fetchone()
    assert best == (TEXTS[0],)


def test_daft(expected):
    daft = need("daft")
    need("pyarrow")
    from wisp_engine.daft import embed

    frame = daft.from_pydict({"t": [*TEXTS, None]}).with_column("v", embed(daft.col("t"), batch_size=2))
    rows = frame.to_pydict()["v"]
    assert rows[4] is None
    assert np.array_equal(np.float32([list(row) for row in rows[:4]]), expected)


def test_spark(expected, monkeypatch):
    need("pyspark")
    need("pyarrow")
    need("pandas")
    from pyspark.sql import SparkSession

    from wisp_engine.spark import embed_udf

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    frame = spark.createDataFrame([(text,) for text in [*TEXTS, None]], "t string").repartition(3)
    rows = {row.t: row.v for row in frame.withColumn("v", embed_udf()("t")).collect()}
    spark.stop()
    assert rows[None] is None
    assert np.array_equal(np.float32([rows[text] for text in TEXTS]), expected)
