"""Children by os.fork, by multiprocessing and by exec; grandchildren; exit codes."""

import multiprocessing
import os
import subprocess
import sys

import torch


def work(number):
    return float((torch.ones(number + 1) * number).sum())


def in_child(queue, number):
    queue.put(work(number))


print(work(1), flush=True)
for number in range(2):
    child = os.fork()
    if not child:
        print("child", work(number), flush=True)
        grandchild = os.fork()
        if not grandchild:
            print("grandchild", work(5), flush=True)
            os._exit(3)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) + number)
    print("exited with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
context = multiprocessing.get_context("fork")
queue = context.SimpleQueue()
process = context.Process(target=in_child, args=(queue, 7))
process.start()
print(queue.get(), flush=True)
process.join()
print(process.exitcode, flush=True)
print(subprocess.run([sys.executable, "-c", "print('bare')"], capture_output=True, text=True, check=True))
print(work(2))
