# Everything but Spark, out of the wheel that `make wheel` puts into dist/. It needs no network, no rights, and no file
# system that it can write to but /tmp: docs/kubernetes.md has pods for it.
FROM python:3.13-slim
COPY dist/*.whl /tmp/dist/
RUN pip install --no-cache-dir "$(ls /tmp/dist/*.whl)[s3,report,erase,tiered,sql,decode,restore,iceberg,delta,pipeline]" \
    && rm -r /tmp/dist
ENV HOME=/tmp
USER 1001:0
ENTRYPOINT ["brokerless"]
